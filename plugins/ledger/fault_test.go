package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// memDisk is a disk in memory that fails on demand. file is what a program
// reads, durable what a power failure leaves.
type memDisk struct {
	file, durable []byte
	size          int // where the last line of file begins
	// fail decides for every operation whether it fails; a failing write
	// leaves its first half, as a full disk does.
	fail  func(op string) error
	syncs int
	// hold, if not nil, blocks every sync until it is fed.
	hold chan struct{}
}

var errDisk = errors.New("disk is full")

func (d *memDisk) check(op string) error {
	if d.fail == nil {
		return nil
	}
	return d.fail(op)
}

func (d *memDisk) read() ([]byte, bool, error) { return d.file, d.file != nil, d.check("read") }

func (d *memDisk) write(p []byte) error {
	err := d.check("write")
	size := d.size + len(p)
	p = append(slices.Clone(p), endLine(size)...)
	if err != nil {
		p = p[:len(p)/2]
	} else {
		size, d.size = d.size, size
	}
	d.file = append(slices.Clone(d.file[:min(size, d.size)]), p...)
	return err
}

func (d *memDisk) sync() error {
	if d.hold != nil {
		<-d.hold
	}
	if err := d.check("sync"); err != nil {
		return err
	}
	d.syncs++
	d.durable = append([]byte(nil), d.file...)
	return nil
}

func (d *memDisk) replace(p []byte) error {
	if err := d.check("replace"); err != nil {
		return err
	}
	d.size = len(p)
	d.file = append(slices.Clone(p), endLine(d.size)...)
	d.durable = slices.Clone(d.file)
	return nil
}

func (d *memDisk) resume(last int) error {
	if err := d.check("resume"); err != nil {
		return err
	}
	d.size, d.durable = last, slices.Clone(d.file)
	return nil
}

func (d *memDisk) aside([]byte) (string, error) { return "aside", d.check("aside") }
func (d *memDisk) close() error                 { return nil }
func (d *memDisk) stands() bool                 { return true }

func openMem(t *testing.T, d *memDisk) *Ledger {
	t.Helper()
	l, found, err := open(d, Witness{}, nil)
	if err != nil || found.Damage != "" {
		t.Fatalf("open: %v, %q", err, found.Damage)
	}
	return l
}

// TestFaults lets every operation fail in turn, and every pair of neighbours.
// Whatever fails: an Add that returned nil is found after a power failure, one
// that failed is not believed, and later Adds work again.
func TestFaults(t *testing.T) {
	for first := range 25 {
		for length := 1; length <= 3; length++ {
			d := &memDisk{}
			l := openMem(t, d)
			n := 0
			d.fail = func(string) error {
				if n++; n > first && n <= first+length {
					return errDisk
				}
				return nil
			}
			told := map[string]bool{}
			for i := range 8 {
				id := fmt.Sprint("k", i)
				if err := l.Add(entry(id, "1")); err == nil {
					told[id] = true
				} else if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "write the ledger") {
					t.Fatal(err)
				}
				if _, there := l.Get(id); there != told[id] {
					t.Fatalf("%d+%d: %s told %v, found %v", first, length, id, told[id], there)
				}
				if i == 4 {
					l.Remove("k0")
					delete(told, "k0")
				}
				d.checkDurable(t, fmt.Sprintf("%d+%d after %s", first, length, id), told)
			}
			if !told["k7"] && first+length < n-1 {
				t.Errorf("%d+%d: the ledger does not recover", first, length)
			}
			d.fail = nil
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			d.checkDurable(t, "closed", told)
		}
	}
}

// checkDurable opens what a power failure would leave.
func (d *memDisk) checkDurable(t *testing.T, when string, told map[string]bool) {
	t.Helper()
	after := &memDisk{file: append([]byte(nil), d.durable...)}
	l, found, err := open(after, Witness{}, nil)
	if err != nil || found.Damage != "" {
		t.Fatalf("%s: %v, %q", when, err, found.Damage)
	}
	for id := range told {
		if _, ok := l.Get(id); !ok {
			t.Fatalf("%s: %s is lost in\n%s", when, id, d.durable)
		}
	}
}

// TestUndo: a failed Add leaves the entry that was there before.
func TestUndo(t *testing.T) {
	d := &memDisk{}
	l := openMem(t, d)
	mustAdd(t, l, entry("a", "1"))
	d.fail = func(string) error { return errDisk }
	if err := l.Add(entry("a", "2"), entry("a", "3"), entry("b", "1")); err == nil {
		t.Fatal("a write to a broken disk succeeded")
	}
	if got := ids(l); got != "a=1" {
		t.Errorf("got %s", got)
	}
}

// TestGroupCommit: Adds that come during a sync share the next one.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &memDisk{}
		l := openMem(t, d)
		d.hold = make(chan struct{})
		returned := make(chan int, 100)
		for i := range 10 {
			go func() {
				if err := l.Add(entry(fmt.Sprint("k", i), "1")); err != nil {
					t.Error(err)
				}
				returned <- i
			}()
			synctest.Wait()
		}
		l.Remove("k3") // its Add is under way; the order holds
		if len(returned) != 0 {
			t.Fatal("an Add returned before its sync")
		}
		d.hold <- struct{}{}
		synctest.Wait()
		if len(returned) != 1 {
			t.Fatalf("%d Adds returned with the first sync, want 1", len(returned))
		}
		d.hold <- struct{}{}
		synctest.Wait()
		if len(returned) != 10 || d.syncs != 2 {
			t.Fatalf("%d Adds returned with %d syncs, want 10 with 2", len(returned), d.syncs)
		}
		after := openMem(t, &memDisk{file: d.durable})
		if got, want := ids(after), "k0=1 k1=1 k2=1 k4=1 k5=1 k6=1 k7=1 k8=1 k9=1"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestRemoveIsWritten: removals reach the file without an Add after them,
// also those that come during a sync.
func TestRemoveIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &memDisk{}
		l := openMem(t, d)
		mustAdd(t, l, entry("a", "1"), entry("b", "1"), entry("c", "1"))
		l.Remove("a")
		if got := ids(openMem(t, &memDisk{file: d.file})); got != "b=1 c=1" {
			t.Errorf("at rest: got %s", got)
		}
		d.hold = make(chan struct{})
		go l.Add(entry("d", "1"))
		synctest.Wait()
		l.Remove("b")
		d.hold <- struct{}{}
		synctest.Wait()
		if got := ids(openMem(t, &memDisk{file: d.file})); got != "c=1 d=1" {
			t.Errorf("during a sync: got %s", got)
		}
	})
}

func TestOpenFaults(t *testing.T) {
	for _, op := range []string{"read", "aside"} {
		d := &memDisk{file: []byte("damaged\n")}
		d.fail = func(o string) error {
			if o == op {
				return errDisk
			}
			return nil
		}
		if _, _, err := open(d, Witness{}, nil); !errors.Is(err, errDisk) {
			t.Errorf("%s fails: got %v", op, err)
		}
	}
}

// TestGoesOn: a file that is whole is gone on with as it is, and what stands in it is made
// durable, for who wrote it may have been killed before. Any other is written anew.
func TestGoesOn(t *testing.T) {
	d := &memDisk{}
	l := openMem(t, d)
	mustAdd(t, l, entry("a", "1"), entry("b", "2"))
	l.Remove("a") // not synced
	var did []string
	d.fail = func(op string) error { did = append(did, op); return nil }
	open := func(what, want string) {
		t.Helper()
		did = nil
		if got := ids(openMem(t, d)); got != "b=2" || strings.Join(did, " ") != want {
			t.Errorf("%s: %s, by %q, want %q", what, got, did, want)
		}
	}
	open("a whole file", "read resume")
	if !bytes.Equal(d.file, d.durable) {
		t.Error("it is not durable")
	}
	whole := slices.Clone(d.file)
	mustAdd(t, openMem(t, d), entry("b", "2"))
	if got, want := string(d.file[:d.size]), string(whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1]); !strings.HasPrefix(got, want) {
		t.Errorf("what is added follows %q, and not %q", got, want)
	}
	d.file = slices.Clone(whole)
	d.fail = func(op string) error {
		did = append(did, op)
		if op == "resume" {
			return errDisk
		}
		return nil
	}
	open("a file that cannot be added to", "read resume replace")
	d.fail = func(op string) error { did = append(did, op); return nil }
	d.file = append(slices.Clone(whole), "half a line"...)
	open("something behind the last line", "read replace")
	d.file = fileText([]kernel.Entry{{ID: "b", Value: []byte("2")}})
	for range 2*slack + 2 {
		d.file = appendLine(d.file, change{Remove: "gone"})
	}
	d.file = append(d.file, endLine(len(d.file))...)
	open("more is void than holds", "read replace")
	d.file = appendLine(appendLine(nil, change{Version: 1}), change{Add: &kernel.Entry{ID: "b", Value: []byte("2")}})
	open("a former format", "read replace")
}

// TestOpenOnAFullDisk: what is there can be read and removed, nothing can be added, and
// once there is room the file says so.
func TestOpenOnAFullDisk(t *testing.T) {
	d := &memDisk{}
	l := openMem(t, d)
	mustAdd(t, l, entry("a", "1"), entry("b", "2"))
	d.fail = func(op string) error {
		if op == "write" || op == "replace" {
			return errDisk
		}
		return nil
	}
	d.file = slices.Clone(d.durable)
	l = openMem(t, d)
	if got := ids(l); got != "a=1 b=2" {
		t.Errorf("got %s", got)
	}
	if err := l.Add(entry("c", "3")); !errors.Is(err, errDisk) || !errors.Is(l.Broken(), errDisk) || !errors.Is(l.Mend(), errDisk) {
		t.Errorf("added: %v, broken %v", err, l.Broken())
	}
	l.Remove("a")
	d.fail = nil
	if err := l.Mend(); err != nil || l.Broken() != nil {
		t.Errorf("mended: %v, broken %v", err, l.Broken())
	}
	if got := ids(openMem(t, &memDisk{file: d.durable})); got != "b=2" {
		t.Errorf("got %s", got)
	}
}
