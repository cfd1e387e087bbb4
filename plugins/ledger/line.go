package ledger

import (
	"encoding/json"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/jsontext"
	"github.com/plumb-net/plumb/plugins/linefile"
)

// version is that of the file's format; a reader refuses newer ones. Files of
// version 1 have no line that says where they end.
const version = 2

// change is what one line says; exactly one field is set.
type change struct {
	Version int           `json:"ledger,omitempty"`
	Add     *kernel.Entry `json:"add,omitempty"`
	Remove  string        `json:"remove,omitempty"`
	// End is the last line: how many bytes stand before it.
	End int `json:"end,omitempty"`
}

// says reports whether the line says something that this release knows.
func (c change) says() bool { return c.Version != 0 || c.Add != nil || c.Remove != "" || c.End != 0 }

// endLine is the last line of a file with so many bytes before it.
func endLine(before int) []byte {
	return appendLine(nil, change{End: before})
}

// appendLine adds a change to the text. Its raw values are JSON in one line.
func appendLine(to []byte, c change) []byte { return linefile.AppendLineOf(to, c.appendTo) }

func (c change) appendTo(text []byte) []byte {
	o := jsontext.Object{Text: text}
	o.Open()
	o.Int("ledger", int64(c.Version))
	if e := c.Add; e != nil {
		o.Name("add")
		o.Open()
		o.Name("id")
		o.Quote(e.ID)
		o.Uint("ns", uint64(e.NS))
		o.String("ns_path", e.NSPath)
		o.String("boot", e.Boot)
		o.Raw("value", e.Value)
		o.Raw("prior", e.Prior)
		o.String("mark", e.Mark)
		o.Int("index", int64(e.Index))
		if i := e.Identity; i != nil {
			o.Name("identity")
			o.Open()
			o.String("name", i.Name)
			o.String("type", i.Type)
			o.String("mac", i.MAC)
			o.Uint("cookie", i.Cookie)
			o.Close()
		}
		o.Close()
	}
	o.String("remove", c.Remove)
	o.Int("end", int64(c.End))
	o.Close()
	return o.Text
}

// parseLine reads a line without its newline.
func parseLine(line []byte) (change, error) {
	text, err := linefile.ParseLine(line)
	if err != nil {
		return change{}, err
	}
	if e := readEntry(text); e != nil {
		return change{Add: e}, nil
	}
	var c change
	if err := json.Unmarshal(text, &c); err != nil {
		return change{}, err
	}
	return c, nil
}

// readEntry reads a line that adds an entry, as nearly all do. It is nil if the line has to be
// read by encoding/json, whatever it says.
func readEntry(text []byte) *kernel.Entry {
	r := jsontext.NewReader(text)
	r.Open()
	if name, _ := r.Field(); string(name) != "add" {
		return nil
	}
	e := new(kernel.Entry)
	r.Open()
	for name, more := r.Field(); more; name, more = r.Field() {
		switch string(name) {
		case "id":
			e.ID = r.String()
		case "ns":
			e.NS = kernel.NS(r.Uint())
		case "ns_path":
			e.NSPath = r.String()
		case "boot":
			e.Boot = r.String()
		case "value":
			e.Value = r.Raw()
		case "prior":
			e.Prior = r.Raw()
		case "mark":
			e.Mark = r.String()
		case "index":
			e.Index = int(r.Int())
		case "identity":
			if e.Identity != nil { // encoding/json merges two of them
				return nil
			}
			if e.Identity = readIdentity(r); e.Identity == nil {
				return nil
			}
		default:
			return nil
		}
	}
	if _, more := r.Field(); more || !r.Done() {
		return nil
	}
	return e
}

func readIdentity(r *jsontext.Reader) *kernel.Identity {
	i := new(kernel.Identity)
	r.Open()
	for name, more := r.Field(); more; name, more = r.Field() {
		switch string(name) {
		case "name":
			i.Name = r.String()
		case "type":
			i.Type = r.String()
		case "mac":
			i.MAC = r.String()
		case "cookie":
			i.Cookie = r.Uint()
		default:
			return nil
		}
	}
	return i
}
