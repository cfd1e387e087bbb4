package models

func (x *FDB) check(f *findings) {
	checkRef(x.Interface, "interface", "the port of a bridge, or of a vxlan", f)
	if x.MacAddress == "" {
		f.add("mac_address", "must be given, such as 02:00:00:00:00:01")
	} else if checkMAC(x.MacAddress, "mac_address", f) && x.MacAddress == zeroMAC && x.Address == "" {
		f.add("mac_address", "is all zero, which is only for a vxlan; give the address of its other end")
	}
	if x.Address == "" {
		return
	}
	if a, ok := parseIP(x.Address, "address", f); ok {
		checkUnicast(a, "address", f)
	}
	if x.Vlan != 0 {
		f.add("vlan", "is for the port of a bridge; with address the entry is of a vxlan, which has none")
	}
}
