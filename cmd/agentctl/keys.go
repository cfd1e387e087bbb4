package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// keyTable is the table of keys with their states.
func (c *cli) keyTable(wide bool) *table {
	if wide {
		return newTable("KEY", "STATE", "AGE", "ORIGIN", "REVISION", "ATTEMPTS", "NEXT TRY", "REASON")
	}
	return newTable("KEY", "STATE", "AGE", "REASON")
}

// addKey adds a row, and rows for the derived keys that are not as they should
// be; wide shows all of them.
func (c *cli) addKey(t *table, k *apiv1.KeyStatus, wide bool, indent string) {
	row := []string{indent + k.Key, k.State, age(c.now(), k.Since)}
	if wide {
		next := ""
		if k.NextTry != nil {
			next = "in " + ago(k.NextTry.AsTime().Sub(c.now()))
		}
		row = append(row, orDash(k.Origin), number(k.Revision), number(uint64(k.Attempts)), orDash(next))
	}
	t.add(append(row, reason(k))...)
	for _, d := range k.Derived {
		if wide || d.State != "configured" && d.State != "observed" {
			c.addKey(t, d, wide, indent+"  ")
		}
	}
}

// keysAnswer shows keys.
func (c *cli) keysAnswer(keys []*apiv1.KeyStatus) answer {
	return answer{
		json: jsonList(keys),
		table: func(w io.Writer, wide bool) {
			t := c.keyTable(wide)
			for _, k := range keys {
				c.addKey(t, k, wide, "")
			}
			if len(keys) > 0 {
				t.write(w, c.color)
			}
		},
		names: namesOf(keys, (*apiv1.KeyStatus).GetKey),
	}
}

// reason says in a line why a key is as it is.
func reason(k *apiv1.KeyStatus) string {
	text := k.Reason
	if text == "" {
		var parts []string
		for _, m := range k.Missing {
			parts = append(parts, "needs "+m.Need+": "+m.Why)
		}
		for _, f := range k.Fields {
			parts = append(parts, strings.TrimPrefix(f.Field+": "+f.Error, ": "))
		}
		text = strings.Join(parts, "; ")
	}
	if k.Busy {
		text = strings.TrimSuffix("being worked on; "+text, "; ")
	}
	return strings.ReplaceAll(text, "\n", " ")
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}
