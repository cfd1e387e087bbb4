package scheduler

import (
	"errors"
	"fmt"
	"strings"
)

// check tells what is wrong with a descriptor, and how to mend it. What two
// kinds could have against each other is little: their prefixes must not
// overlap. Kinds are read in no order, since nothing is done before all that it
// may stand on was read; what values need is judged value by value, so kinds
// may need each other, and only values can form a circle.
func check[V, M any](d Descriptor[V, M]) error {
	switch {
	case d.Name == "" || strings.ContainsAny(d.Name, " \t\n"):
		return errors.New("it has no Name of one word: give it the name that operators know it by, as in \"route\"")
	case d.Prefix == "" || !strings.HasSuffix(string(d.Prefix), "/"):
		return fmt.Errorf("its Prefix is %q: end it with a slash, as in \"route/\"", d.Prefix)
	case (d.Create == nil) != (d.Delete == nil):
		return errors.New("it has one of Create and Delete: an observed kind has neither, any other has both")
	case (d.Encode == nil) != (d.Decode == nil):
		return errors.New("it has one of Encode and Decode: give it both, or none")
	case len(d.ReadAfter) > 0 && d.Retrieve == nil:
		return errors.New("it has ReadAfter and no Retrieve: drop it, or say how it is read")
	case d.Timeout < 0:
		return fmt.Errorf("its Timeout is %s: give it none for the default", d.Timeout)
	case d.Create == nil:
		return checkObserved(d)
	case d.Interest != nil:
		return errors.New("it has Interest, which is for observed kinds: drop it, or Create and Delete")
	}
	return nil
}

func checkObserved[V, M any](d Descriptor[V, M]) error {
	var idle []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Needs", d.Needs != nil}, {"Update", d.Update != nil}, {"Release", d.Release != nil}, {"Validate", d.Validate != nil},
		{"Claims", d.Claims != nil}, {"Lane", d.Lane != nil}, {"Disruption", d.Disruption != nil},
		{"CreateBatch", d.CreateBatch != nil}, {"DeleteBatch", d.DeleteBatch != nil},
	} {
		if f.set {
			idle = append(idle, f.name)
		}
	}
	switch {
	case len(idle) > 0:
		return fmt.Errorf("it has no Create, so it is observed: drop %s, or give it Create and Delete", strings.Join(idle, ", "))
	case d.Derive != nil && d.Interest != nil:
		return errors.New("it has Derive and Interest: what nobody needs is not looked at, so nothing can be derived of it; drop one")
	case d.Retrieve == nil:
		return errors.New("an observed kind needs Retrieve: how else would it be known")
	}
	return nil
}
