package cgroup

import (
	"bytes"
	"math"
	"time"
)

// The most devices and interfaces that are told of, so that a sample stays small
// whatever a container does.
const (
	maxDevices    = 16
	maxInterfaces = 32
)

// number reads digits, up to a line's end. It is false for anything else, and for what
// does not fit.
func number(text []byte) (n uint64, ok bool) {
	text = bytes.TrimSuffix(text, []byte("\n"))
	for _, c := range text {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(text) > 0
}

// span is a number of units as a time; one that no clock reaches is the longest.
func span(n uint64, unit time.Duration) time.Duration {
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// limit reads a limit: "max" is none.
func limit(text []byte) uint64 {
	n, _ := number(text)
	return n
}

// pairs calls f with each line of the form "name value".
func pairs(text []byte, f func(name []byte, value uint64)) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(" "))
		if n, ok := number(value); ok {
			f(name, n)
		}
	}
}

// stall reads a file of pressure; nil if it is none.
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=12345
func stall(text []byte) *Stall {
	var s Stall
	known := false
	for line := range bytes.Lines(text) {
		kind, rest, _ := bytes.Cut(line, []byte(" "))
		_, total, _ := bytes.Cut(rest, []byte("total="))
		n, ok := number(total)
		switch {
		case !ok:
		case string(kind) == "some":
			s.Some, known = span(n, time.Microsecond), true
		case string(kind) == "full":
			s.Full, known = span(n, time.Microsecond), true
		}
	}
	if !known {
		return nil
	}
	return &s
}

// machine reads a meminfo: what is not free, of memory and of swap, in bytes.
//
//	MemTotal:       16384000 kB
func machine(text []byte) (memory, swap uint64, known bool) {
	kib := map[string]uint64{}
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		value, unit, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
		if n, ok := number(value); ok && string(unit) == "kB\n" {
			kib[string(name)] = min(n, math.MaxUint64>>10)
		}
	}
	used := func(total, free string) uint64 { return (kib[total] - min(kib[free], kib[total])) << 10 }
	return used("MemTotal", "MemFree"), used("SwapTotal", "SwapFree"), kib["MemTotal"] > 0
}

// device finds a device's place in a list, or makes one; nil if there are too many.
func device(all *[]DeviceIO, name []byte) *DeviceIO {
	for i := range *all {
		if (*all)[i].Device == string(name) {
			return &(*all)[i]
		}
	}
	major, minor, _ := bytes.Cut(name, []byte(":"))
	_, isMajor := number(major)
	if _, isMinor := number(minor); !isMajor || !isMinor || len(*all) == maxDevices {
		return nil
	}
	*all = append(*all, DeviceIO{Device: string(name)})
	return &(*all)[len(*all)-1]
}

// fields sets what lines of names and numbers say, as far as it is asked for.
func fields(text []byte, to map[string]*uint64) {
	pairs(text, func(name []byte, v uint64) {
		if field := to[string(name)]; field != nil {
			*field = v
		}
	})
}

// ioStat reads io.stat of version 2.
//
//	8:0 rbytes=90112 wbytes=0 rios=4 wios=0 dbytes=0 dios=0
func ioStat(text []byte) (all []DeviceIO) {
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		d := device(&all, name)
		if d == nil {
			continue
		}
		for field := range bytes.FieldsSeq(rest) {
			key, value, _ := bytes.Cut(field, []byte("="))
			n, ok := number(value)
			if !ok {
				continue
			}
			switch string(key) {
			case "rbytes":
				d.ReadBytes = n
			case "wbytes":
				d.WriteBytes = n
			case "rios":
				d.ReadCount = n
			case "wios":
				d.WriteCount = n
			}
		}
	}
	return all
}

// blkio reads a file of version 1, of bytes or of counts, into the list.
//
//	8:0 Read 90112
func blkio(all *[]DeviceIO, text []byte, read, write func(*DeviceIO) *uint64) {
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte(" "))
		op, value, _ := bytes.Cut(rest, []byte(" "))
		n, ok := number(value)
		if !ok {
			continue
		}
		into := read
		if string(op) == "Write" {
			into = write
		} else if string(op) != "Read" {
			continue
		}
		if d := device(all, name); d != nil {
			*into(d) = n
		}
	}
}

// netDev reads /proc/<pid>/net/dev, as far as take is true of the name: the name, then
// eight columns of what was received and eight of what was sent.
func netDev(text []byte, take func(name string) bool) (all []Interface) {
	for line := range bytes.Lines(text) {
		name, rest, ok := bytes.Cut(line, []byte(":"))
		name = bytes.TrimSpace(name)
		if !ok || len(name) == 0 || len(all) == maxInterfaces || !take(string(name)) {
			continue
		}
		var columns [16]uint64
		n := 0
		for field := range bytes.FieldsSeq(rest) {
			v, ok := number(field)
			if !ok || n == len(columns) {
				break
			}
			columns[n] = v
			n++
		}
		if n < len(columns) {
			continue
		}
		all = append(all, Interface{
			Name:         string(name),
			ReceiveBytes: columns[0], ReceivePackets: columns[1], ReceiveErrors: columns[2], ReceiveDropped: columns[3],
			TransmitBytes: columns[8], TransmitPackets: columns[9], TransmitErrors: columns[10], TransmitDropped: columns[11],
		})
	}
	return all
}
