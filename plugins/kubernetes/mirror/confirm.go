package mirror

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// confirmDelay is the age at which the removal of an object is confirmed. The API server deletes the objects of a CRD
// within milliseconds after it stops serving them.
const confirmDelay = time.Second

// Confirm confirms the removal of objects until ctx ends, as long as the API server has the CRD that they are of. When
// a CRD is deleted, the API server first deletes all its objects, which then are unknown and not unwanted. confirm ends
// the turn in that case.
func (f *Follower) confirm(ctx context.Context, c *rest.RESTClient, stop func()) {
	warned := false
	for {
		wait := time.Hour
		if since, any := f.Store.Unconfirmed(); any {
			now := time.Now()
			wait = confirmDelay
			if age := now.Sub(since); age < confirmDelay {
				wait -= age
			} else if f.MayRemove() {
				crd, served, err := f.origin(ctx, c)
				switch {
				case err == nil && served && f.Store.isFrom(crd):
					f.Store.Confirm(now.Add(-confirmDelay))
					continue
				case err == nil:
					f.Note(apierrors.NewNotFound(f.Resource.GroupResource(), ""))
					stop()
					return
				case ctx.Err() == nil && !warned:
					warned = true
					f.Log.Warn("removed objects are kept until the API server shows their CRD", "resource", f.Resource.Resource, "error", err)
				}
				wait = lastRetry
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-f.Store.unlisted():
		case <-time.After(wait):
		}
	}
}

// origin returns the UID of the CRD of the resource, and whether the API server has the CRD and does not delete it. The
// UID is "" if the agent may not read the CRD. In that case origin reads the list of served resources, which all users
// may read.
func (f *Follower) origin(ctx context.Context, c *rest.RESTClient) (crd types.UID, served bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	name := f.Resource.GroupResource().String()
	data, err := c.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return "", false, nil
	case apierrors.IsForbidden(err):
		served, err := f.offered(ctx, c)
		return "", served, err
	}
	var o metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	return o.UID, err == nil && o.DeletionTimestamp == nil, err
}

// offered reports whether the API server offers the resource. It offers no creation while the CRD is being deleted.
func (f *Follower) offered(ctx context.Context, c *rest.RESTClient) (bool, error) {
	data, err := c.Get().AbsPath("/apis/" + f.Resource.GroupVersion().String()).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	var list metav1.APIResourceList
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == f.Resource.Resource && slices.Contains(r.Verbs, "create")
	}), err
}
