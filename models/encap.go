package models

import (
	"fmt"
	"net/netip"
	"strings"
)

const (
	maxLabel     = 1<<20 - 1
	maxLabels    = 30 // of the kernel
	implicitNull = 3  // which only asks others to send no label
)

// Text is an encapsulation in words like those of ip(8), each in one spelling; "" for none.
func (x *Encap) Text() string {
	if x == nil {
		return ""
	}
	var b strings.Builder
	option := func(name string, v uint32) {
		if v != 0 {
			fmt.Fprintf(&b, " %s %d", name, v)
		}
	}
	if len(x.Labels) > 0 {
		b.WriteString("mpls " + x.LabelText())
		option("ttl", x.Ttl)
		return b.String()
	}
	b.WriteString("ip")
	option("id", x.Id)
	for _, end := range []struct{ name, text string }{{"src", x.Src}, {"dst", x.Dst}} {
		if a, err := netip.ParseAddr(end.text); err == nil {
			end.text = a.String()
		}
		if end.text != "" {
			fmt.Fprintf(&b, " %s %s", end.name, end.text)
		}
	}
	option("ttl", x.Ttl)
	option("tos", x.Tos)
	if x.Checksum {
		b.WriteString(" checksum")
	}
	return b.String()
}

// LabelText is the labels as ip(8) writes them: 100/200.
func (x *Encap) LabelText() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(x.GetLabels()), "[]"), " ", "/")
}

// check checks an encapsulation at its place in a value.
func (x *Encap) check(at string, f *findings) {
	switch {
	case x == nil:
		return
	case len(x.Labels) > 0:
		x.checkLabels(at, f)
		return
	case x.Dst == "":
		f.add(at+".dst", "must be given: the address of the other end, such as 192.0.2.1 (or labels, of MPLS)")
	}
	dst, known := x.checkEnd(x.Dst, at+".dst", f)
	if src, ok := x.checkEnd(x.Src, at+".src", f); ok && known && family(src) != family(dst) {
		f.add(at+".src", "is %s, but dst is %s; both must be of one family", family(src), family(dst))
	}
}

func (x *Encap) checkEnd(text, at string, f *findings) (a netip.Addr, ok bool) {
	if text == "" {
		return a, false
	}
	if a, ok = parseIP(text, at, f); ok {
		checkUnicast(a, at, f)
	}
	return a, ok
}

func (x *Encap) checkLabels(at string, f *findings) {
	refuse := func(set bool, field string) {
		if set {
			f.add(at+"."+field, "not together with labels; keep one")
		}
	}
	refuse(x.Id != 0, "id")
	refuse(x.Dst != "", "dst")
	refuse(x.Src != "", "src")
	refuse(x.Tos != 0, "tos")
	refuse(x.Checksum, "checksum")
	if len(x.Labels) > maxLabels {
		f.add(at+".labels", "at most %d, not %d", maxLabels, len(x.Labels))
	}
	for i, label := range x.Labels {
		switch at := fmt.Sprintf("%s.labels[%d]", at, i); {
		case label == implicitNull:
			f.add(at, "3 is the implicit null label, which no packet bears; leave it out")
		case label > maxLabel:
			f.add(at, "must be 0 to %d, not %d", maxLabel, label)
		}
	}
}
