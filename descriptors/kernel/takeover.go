package kernel

import "encoding/json"

// byOthers is what the ledger notes of an object without a link's index that others made and
// that was taken over as it is.
type byOthers struct {
	Protocol uint8 `json:"protocol"`
}

// TakeOver makes the entry one of an object that others made, with that protocol number.
func (e Entry) TakeOver(protocol uint8) Entry {
	e.Prior, _ = json.Marshal(byOthers{protocol}) // a number: cannot fail
	return e
}

// TakenOver is the protocol number of an object that was taken over.
func (e Entry) TakenOver() (protocol uint8, taken bool) {
	var by struct{ Protocol *uint8 } // what other kinds note has none
	if len(e.Prior) == 0 || json.Unmarshal(e.Prior, &by) != nil || by.Protocol == nil {
		return 0, false
	}
	return *by.Protocol, true
}

// Bears reports whether an object of that protocol number can be that of the entry.
func (o *Owner) Bears(e Entry, protocol uint8) bool {
	by, taken := e.TakenOver()
	return protocol == o.Protocol() || taken && protocol == by
}

// ByPeople reports whether a protocol number is of what people and their scripts make: none,
// that of ip route, and static. All else is a daemon's or the kernel's.
func ByPeople(protocol uint8) bool { return protocol == 0 || protocol == 3 || protocol == 4 }
