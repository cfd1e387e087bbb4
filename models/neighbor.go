package models

func (x *Neighbor) check(f *findings) {
	checkRef(x.Interface, "interface", "an interface", f)
	if x.Address == "" {
		f.add("address", "must be given, such as 10.0.0.2 or fd00::2")
	} else if a, ok := parseIP(x.Address, "address", f); ok {
		checkUnicast(a, "address", f)
	}
	if x.MacAddress == "" {
		f.add("mac_address", "must be given, such as 02:00:00:00:00:01")
	} else if checkMAC(x.MacAddress, "mac_address", f) && x.MacAddress == zeroMAC {
		f.add("mac_address", "is all zero; no neighbor has it")
	}
}
