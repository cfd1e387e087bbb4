package netlink

// Unnamed is for tests of what no kernel at hand does.
var Unnamed = unnamed
