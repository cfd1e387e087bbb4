package main

// sysSetns is a system call that package syscall does not name.
const sysSetns = 268
