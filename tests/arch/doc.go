// Package arch tests what holds for the tree as a whole: who imports whom, that
// everything is documented and formatted, and that the documentation says what
// is so.
package arch
