package scheduler

// On needs one key. why tells people what for: "the bridge that it joins".
func On(key Key, why string) Need { return Need{Key: key, Why: why} }

// AnyOf needs at least one key under the prefix.
func AnyOf(prefix Key, why string) Need { return Need{Prefix: prefix, Why: why} }

// Also widens a need for any key below a prefix to those that lie in some folders themselves, and
// not deeper: the addresses below an interface, and those that have names of their own. Each
// change in such a folder costs a look at each such need that is not met.
func Also(n Need, folders ...Key) Need {
	n.Also = folders
	return n
}

// If narrows a need to objects that pass. A value or metadata of another type does not. pass is also
// asked about desired values that are not in place yet: a value that is about to change meets the
// need only if both values pass. It must be pure and quick.
func If[V, M any](n Need, pass func(k Key, v V, m M) bool) Need {
	n.Pass = func(k Key, value, meta any) bool {
		v, ok := value.(V)
		m, _ := meta.(M)
		return ok && pass(k, v, m)
	}
	return n
}

// Tell says why an object that does not pass [If] is not as needed: "it is in
// host network mode". "" says nothing.
func Tell[V, M any](n Need, why func(v V, m M) string) Need {
	n.Tell = func(value, meta any) string {
		v, ok := value.(V)
		m, _ := meta.(M)
		if !ok {
			return ""
		}
		return why(v, m)
	}
	return n
}

// Project names the part of the needed object that the value was built with
// (an interface index, a namespace inode). When it is changed by us,
// or seen to have changed, the value is replaced, or just made if it is
// gone. part must be pure and quick.
func Project[V, M any](n Need, part func(v V, m M) string) Need {
	n.Project = func(value, meta any) string {
		v, _ := value.(V)
		m, _ := meta.(M)
		return part(v, m)
	}
	return n
}

// Together needs a key that is satisfied as one with this value: veth peers.
// Both pend until everything else that either needs is in place; neither may
// be in place without the other being asked for. agree compares with the
// other's desired value; its error makes this value invalid. The values of a
// unit are created in the order of their ordinary needs on each other.
func Together[V any](key Key, why string, agree func(v V) error) Need {
	n := Need{Key: key, Why: why, Together: true}
	if agree != nil {
		n.Agree = func(value any) error {
			v, ok := value.(V)
			if !ok {
				return nil
			}
			return agree(v)
		}
	}
	return n
}
