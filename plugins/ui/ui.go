package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"github.com/plumb-net/plumb/plugins/file"
)

//go:embed assets
var assets embed.FS

// Path is where the page is; all of it is below.
const Path = "/ui/"

// maxFile bounds an intent file that is parsed, in bytes. A parse takes up to about 30 times
// that, so one runs at a time.
const maxFile = 8 << 20

// policy lets the page load what it brings, ask where it comes from, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// asset is a file of the page.
type asset struct {
	data []byte
	kind string // of its content
	tag  string
}

// Handler serves the page below Path, and parses intent files for it, so that the page knows
// them as agentctl does.
func Handler() http.Handler {
	mux := http.NewServeMux()
	files := load()
	mux.HandleFunc("GET "+Path+"{name...}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if name == "" {
			name = "index.html"
		}
		a, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // asked each time, and sent when it has changed
		h.Set("Content-Type", a.kind)
		h.Set("ETag", a.tag)
		if r.Header.Get("If-None-Match") == a.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(a.data) // or the browser has gone
	})
	mux.Handle("POST "+Path+"parse", parser{make(chan struct{}, 1)})
	return mux
}

func load() map[string]asset {
	files := map[string]asset{}
	entries, err := fs.ReadDir(assets, "assets")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range entries {
		data, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		files[e.Name()] = asset{data, mime.TypeByExtension(path.Ext(e.Name())), `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return files
}

// item is a document of an intent file, as calls of the API take it.
type item struct {
	Key   string `json:"key"`
	Text  string `json:"text"`
	Where string `json:"where"`
}

// parser answers with the documents of an intent file, YAML or JSON, or with what is wrong.
type parser struct {
	busy chan struct{} // holds a value during a parse
}

// ServeHTTP implements http.Handler.
func (p parser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	say := func(code int, answer any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}
	refuse := func(code int, err error) { say(code, map[string]string{"message": err.Error()}) }
	name := path.Base(r.URL.Query().Get("name"))
	if name == "." || name == "/" {
		name = "intent"
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFile))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		err = fmt.Errorf("the file is larger than %d MiB; split it, or use agentctl apply", maxFile>>20)
	}
	if err != nil {
		refuse(http.StatusBadRequest, fmt.Errorf("%s: %w", name, err))
		return
	}
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-r.Context().Done():
		return
	}
	docs, err := file.DecodeSmall(data, name)
	if err != nil {
		refuse(http.StatusBadRequest, err)
		return
	}
	items := []item{}
	for _, d := range docs {
		items = append(items, item{d.Key, string(d.JSON), fmt.Sprintf("%s:%d", name, d.Line)})
	}
	say(http.StatusOK, map[string]any{"items": items})
}
