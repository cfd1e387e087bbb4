package models

import (
	_ "embed"
	"strings"
	"sync"
)

// models.proto is also the documentation: what stands above a message or a
// field there is what people read in explain, in schemas and in errors.
//
//go:embed models.proto
var protoSource string

// comments are the comments of models.proto by full name without the package:
// "Interface", "Interface.mtu".
var comments = sync.OnceValue(func() map[string]string { return readComments(protoSource) })

// readComments reads a .proto file as our style writes it: one declaration on
// a line, its comment on the lines above. Oneofs add nothing to the names of
// their members, as in protobuf itself.
func readComments(source string) map[string]string {
	docs := map[string]string{}
	var scope, comment []string
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "//"); ok {
			comment = append(comment, strings.TrimSpace(text))
			continue
		}
		words := strings.Fields(line)
		switch {
		case line == "}":
			scope = scope[:len(scope)-1]
		case strings.HasPrefix(line, "message "):
			docs[scopeName(append(scope, words[1]))] = strings.Join(comment, " ")
			if !strings.HasSuffix(line, "}") {
				scope = append(scope, words[1])
			}
		case strings.HasPrefix(line, "oneof "):
			scope = append(scope, "")
		case len(scope) > 0 && len(words) > 3:
			name := words[len(words)-3] // string name = 1;
			docs[scopeName(append(scope, name))] = strings.Join(comment, " ")
		}
		comment = nil
	}
	return docs
}

func scopeName(parts []string) string {
	var named []string
	for _, p := range parts {
		if p != "" {
			named = append(named, p)
		}
	}
	return strings.Join(named, ".")
}
