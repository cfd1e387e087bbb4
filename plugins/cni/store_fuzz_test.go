package cni_test

import (
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/cni"
)

// FuzzRecord: a record of the ledger that cannot be read is told, and one that can be
// read is the attachment that its name says.
func FuzzRecord(f *testing.F) {
	f.Add("attachment/blue/c1/eth0", []byte(`{"version":1,"key":{"Network":"blue","ContainerID":"c1","IfName":"eth0"},"phase":"added"}`))
	f.Add("attachment/blue/c1/eth0", []byte(`{"version":2}`))
	f.Add("x", []byte(`{"version":1,"pools":{"a":null}}`))
	f.Fuzz(func(t *testing.T, id string, value []byte) {
		l := &kernel.MemLedger{}
		if err := l.Add(kernel.Entry{ID: id, Value: value}); err != nil {
			t.Skip()
		}
		s, unread := cni.OpenStore(l)
		all := s.Of("")
		if len(all)+len(unread) != 1 {
			t.Fatalf("%v and %v of one record", all, unread)
		}
		for _, a := range all {
			if id != "attachment/"+a.Key.String() {
				t.Fatalf("%s is read as %s", id, a.Key)
			}
		}
	})
}
