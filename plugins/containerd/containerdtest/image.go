package containerdtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Image is busybox, as /bin/sh and the usual commands; left to itself it
// sleeps, so it serves as the sandbox of pods as well. It is in the namespace
// of CRI from the start, in others after Import.
const Image = "localhost/plumb-test:1"

// CRINamespace is the namespace of pods.
const CRINamespace = "k8s.io"

// commands are those of busybox that the image has.
var commands = []string{"sh", "sleep", "ip", "ping", "cat", "ls", "nc", "true", "false", "kill", "tail", "head"}

// ImportImage makes the image out of the host's busybox. Start does it.
func (e *Engine) ImportImage() {
	e.T.Helper()
	data, err := imageArchive()
	if err == nil {
		err = os.WriteFile(e.imageFile(), data, 0o600)
	}
	if err != nil {
		e.T.Fatal(err)
	}
	e.Import(CRINamespace)
}

func (e *Engine) imageFile() string { return filepath.Join(e.Dir, "image.tar") }

// Import brings the image into a namespace, which need not be there.
func (e *Engine) Import(namespace string) {
	e.T.Helper()
	e.note(namespace)
	if out := e.Ctr(namespace, "images", "list", "--quiet", "name=="+Image); out == "" {
		e.Ctr(namespace, "images", "import", e.imageFile())
	}
}

// note has the cgroups of a namespace cleared away at the end.
func (e *Engine) note(namespace string) {
	f, err := os.OpenFile(filepath.Join(e.Dir, "namespaces"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.T.Fatal(err)
	}
	_, _ = fmt.Fprintln(f, namespace)
	_ = f.Close()
}

// imageArchive is the image as docker save would write it.
func imageArchive() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	busybox, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	layer := archive(func(add func(tar.Header, []byte)) {
		add(tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox)
		for _, c := range commands {
			add(tar.Header{Name: "bin/" + c, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
		}
		for _, dir := range []string{"tmp/", "etc/", "proc/", "sys/", "dev/"} {
			add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
		}
	})
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Cmd": []string{"sleep", "100000"}, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{Image}, "Layers": []string{"layer.tar"},
	}})
	return archive(func(add func(tar.Header, []byte)) {
		add(tar.Header{Name: "layer.tar", Mode: 0o644}, layer)
		add(tar.Header{Name: "config.json", Mode: 0o644}, config)
		add(tar.Header{Name: "manifest.json", Mode: 0o644}, manifest)
	}), err
}

// archive makes a tar in memory, where writing does not fail.
func archive(fill func(add func(tar.Header, []byte))) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	fill(func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		_, _ = w.Write(data)
	})
	_ = w.Close()
	return out.Bytes()
}
