package kv

// Key names a thing: "route/default-web".
type Key string

// Need is something that must be in place before a value can be.
// The scheduler package documents it and has its constructors.
type Need struct {
	// Key, or Prefix for any key below it.
	Key    Key
	Prefix Key
	// Also are folders with their slashes. They widen Prefix to the keys that lie in the folders
	// themselves, and not deeper. A folder is neither below Prefix nor named twice.
	Also []Key
	// Why tells people what the need is for.
	Why string
	// Together marks a need that is satisfied as one with its owner.
	Together bool

	// Pass narrows the need to objects that pass; nil passes all.
	Pass func(k Key, value, meta any) bool
	// Tell says why an object that does not pass is not as needed; "" says nothing.
	Tell func(value, meta any) string
	// Project is the part of the object that its dependents were built with.
	Project func(value, meta any) string
	// Agree compares with the desired value of a Together need.
	Agree func(value any) error
}

// String names the need: "interface/br0", "address/web/*".
func (n Need) String() string {
	if n.Prefix != "" {
		return string(n.Prefix) + "*"
	}
	return string(n.Key)
}
