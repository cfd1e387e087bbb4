package kernel

import (
	"strings"
	"testing"
)

func TestMarkIsFullCutAndReadBack(t *testing.T) {
	long := "interface/" + strings.Repeat("x", 200)
	label := strings.Repeat("l", 63)
	for _, c := range []struct{ label, key, back string }{
		{"host7", "interface/web", "interface/web"},
		{"host7", "interface/a:b-c.d", "interface/a:b-c.d"},
		{label, long, ""},
	} {
		mark := Mark(c.label, c.key)
		if len(mark) > 255 {
			t.Errorf("Mark(%q) has %d bytes", c.key, len(mark))
		}
		if comment := Comment(c.label, c.key); len(comment) > MaxComment || c.back != "" && comment != mark {
			t.Errorf("Comment(%q) is %q", c.key, comment)
		}
		if key, ours := MarkedKey(c.label, mark); key != c.back || !ours {
			t.Errorf("MarkedKey(%q) = %q, %v", mark, key, ours)
		}
		if _, ours := MarkedKey("other", mark); ours {
			t.Errorf("mark %q of %q taken for another label's", mark, c.label)
		}
	}
	if Mark(label, long) == Mark(label, long[:len(long)-1]+"y") {
		t.Error("two long keys have one mark")
	}
}

func TestForgetSparesWhatIsBeingMade(t *testing.T) {
	ledger := &MemLedger{}
	o := NewOwner("l", "boot", ledger, nil)
	if err := o.Record(Entry{ID: "a"}, Entry{ID: "b"}); err != nil {
		t.Fatal(err)
	}
	left := func() string {
		ids := ""
		for _, e := range o.Entries("") {
			ids += e.ID
		}
		return ids
	}

	reading := o.Reading()
	end := o.Begin("a")
	reading.Forget("a")
	if got := left(); got != "ab" {
		t.Errorf("busy: left %q", got)
	}
	end()
	reading.Forget("a", "b")
	if got := left(); got != "a" {
		t.Errorf("one of a ended since the reading began: left %q", got)
	}
	o.Reading().Forget("a")
	if got := left(); got != "" {
		t.Errorf("quiet: left %q", got)
	}
	// A reading that takes too long cannot tell any more.
	if err := o.Record(Entry{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	reading = o.Reading()
	o.Begin("a")()
	for range remembered - 1 {
		o.Begin("x")()
	}
	reading.Forget("a")
	o.Begin("x")()
	reading.Forget("a", "b")
	if got := left(); got != "a" {
		t.Errorf("long ago: left %q", got)
	}
}

func TestRecordWritesOnlyWhatIsNew(t *testing.T) {
	ledger := &MemLedger{}
	o := NewOwner("l", "boot", ledger, nil)
	for range 2 {
		if err := o.Record(Entry{ID: "a", Index: 1}, Entry{ID: "b"}); err != nil {
			t.Fatal(err)
		}
	}
	if ledger.Writes() != 1 {
		t.Errorf("%d writes, want 1", ledger.Writes())
	}
	if _, ok := NewOwner("l", "next boot", ledger, nil).Entry("a"); ok {
		t.Error("an entry of an earlier boot is believed")
	}
}

// A namespace is used while anything recorded, or anybody who said so, is in it.
func TestUses(t *testing.T) {
	ledger := &MemLedger{}
	if err := ledger.Add(Entry{ID: "old", NS: 9, Boot: "earlier"}, Entry{ID: "kept", NS: 7, Boot: "boot"}); err != nil {
		t.Fatal(err)
	}
	o := NewOwner("l", "boot", ledger, nil)
	freed := func() bool {
		select {
		case <-o.Freed():
			return true
		default:
			return false
		}
	}
	if !o.Uses(7) || o.Uses(9) || o.Uses(8) {
		t.Error("what is in the ledger of this boot is used")
	}
	if err := o.Record(Entry{ID: "a", NS: 8}, Entry{ID: "b", NS: 8}, Entry{ID: "named"}); err != nil {
		t.Fatal(err)
	}
	o.Use("named", 6)
	if err := o.Record(Entry{ID: "named", Index: 1}); err != nil { // which does not know where
		t.Fatal(err)
	}
	o.Remove("a")
	if !o.Uses(8) || !o.Uses(6) || freed() {
		t.Error("b is still there, and so is what was named")
	}
	if err := o.Record(Entry{ID: "b", NS: 7}); err != nil { // it moved
		t.Fatal(err)
	}
	if o.Uses(8) || !freed() {
		t.Error("b has left")
	}
	o.Reading().Forget("b", "kept")
	o.Leave("named")
	if o.Uses(7) || o.Uses(6) || !freed() || freed() {
		t.Error("all have left")
	}
}
