package models

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// nft takes an address in many spellings: as a number, in quotes, without blanks around it, as a
// range, or as an expression that the kernel computes for each packet. So the rules of a table are
// not searched for forbidden addresses. What a statement writes into a packet has to be an address,
// a range of addresses or a map to addresses; everything else is computed.

// rewritten is what a statement of a rule writes into the source or the destination of packets.
type rewritten struct {
	source   bool
	computed bool        // may be any address
	to       []addrRange // otherwise: one of these
	device   string      // the statement sends packets through this link
}

// addrRange are the addresses between two, both included. The zero value has none.
type addrRange struct{ from, to netip.Addr }

// nftToken is a token of a rule, as far as they matter here: a quoted text, an address in brackets, a
// claim, a word, or a sign. A word begins with two colons or none: with one begins a port.
var nftToken = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|<` + ClaimPrefix + `[^<>]*>|(?:::)?[a-zA-Z0-9_][a-zA-Z0-9_./:-]*|::|\S`)

// nftTokens returns the tokens of a rule. Quotes stay, so that a text is no keyword.
func nftTokens(text string) (list []string) {
	for _, t := range nftToken.FindAllString(text, -1) {
		if before, ends := strings.CutSuffix(t, ":"); ends && before != "" && !strings.HasSuffix(before, ":") && t[0] != '"' {
			list = append(list, before, ":")
			continue
		}
		list = append(list, t)
	}
	return list
}

var (
	// natWords can stand between the name of a statement and its address.
	natWords = []string{"ip", "ip6", "prefix", "interval", "addr", ".", "port"}
	// operators continue an expression behind an address.
	operators = []string{"|", "&", "^", "<", ">", "-", "/", "+", "*", "!", "(", "[", "and", "or", "xor", "lshift", "rshift", "map", "vmap"}
	// beforeStatus stand before dnat and snat where these are states of a connection.
	beforeStatus = []string{"status", ",", "{", "|", "&", "=", "!", "eq", "ne", "and", "or", "xor"}
)

// rewrites returns what the statements of a rule write into the addresses of packets. In addressMaps
// are the maps of the table whose values are addresses.
func rewrites(rule, family string, addressMaps []string) (list []rewritten) {
	tokens := nftTokens(rule)
	at := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return tokens[i]
	}
	type start struct {
		rewritten
		at int // the first token of the address
	}
	var starts []start
	for i, t := range tokens {
		switch t {
		case "dnat", "snat", "tproxy", "dup", "fwd":
			next, families := i+1, 0
			for ; slices.Contains(natWords, at(next)); next++ {
				families++
			}
			if slices.Contains(beforeStatus, at(i-1)) && at(next) != "to" && at(i-3) != "set" {
				continue // a state, as in: ct status dnat accept
			}
			if at(next) == "to" {
				next++
			}
			r := rewritten{source: t == "snat"}
			if t == "fwd" && families == 0 || t == "dup" && family == "netdev" {
				r.device = strings.Trim(at(next), `"`)
			}
			starts = append(starts, start{r, next})
		case "set":
			switch before := at(i - 1); {
			case (before == "saddr" || before == "daddr") && at(i-2) != "ether":
				starts = append(starts, start{rewritten{source: before == "saddr"}, i + 1})
			case at(i-2) == ",": // raw payload, @nh,128,32
				list = append(list, rewritten{computed: true})
			}
		case "add", "update":
			if at(i+1) == "@" && at(i+3) == "{" && slices.Contains(addressMaps, at(i+2)) {
				list = append(list, mapValues(braced(tokens[i+4:])))
			}
		}
	}
	for i, s := range starts {
		end := len(tokens)
		if i+1 < len(starts) {
			end = starts[i+1].at
		}
		if s.device == "" {
			s.computed, s.to = written(tokens[min(s.at, end):end])
		}
		list = append(list, s.rewritten)
	}
	return list
}

// written returns the addresses that a statement writes; tokens begin behind its name.
func written(tokens []string) (computed bool, to []addrRange) {
	if len(tokens) == 0 {
		return true, nil
	}
	if tokens[0] == ":" { // a port alone
		return false, nil
	}
	rest := tokens[1:]
	r, ok := addresses(tokens[0])
	if !ok {
		i := slices.Index(tokens, "map")
		switch {
		case i < 0 || i+1 == len(tokens):
			return true, nil
		case tokens[i+1] == "@": // its elements are checked where the table has them
			rest = tokens[min(i+3, len(tokens)):]
		case tokens[i+1] == "{":
			inside := braced(tokens[i+2:])
			rest = tokens[min(i+3+len(inside), len(tokens)):]
			m := mapValues(inside)
			if m.computed {
				return true, nil
			}
			to = m.to
		default:
			return true, nil
		}
	} else {
		to = []addrRange{r}
	}
	return len(rest) > 0 && slices.Contains(operators, rest[0]), to
}

// braced returns the tokens up to the brace that closes.
func braced(tokens []string) []string {
	open := 1
	for i, t := range tokens {
		switch t {
		case "{":
			open++
		case "}":
			open--
		}
		if open == 0 {
			return tokens[:i]
		}
	}
	return tokens
}

// mapValues returns the addresses that are values of the elements of a map.
func mapValues(tokens []string) (r rewritten) {
	for len(tokens) > 0 {
		element, rest := tokens, []string(nil)
		if i := slices.Index(tokens, ","); i >= 0 {
			element, rest = tokens[:i], tokens[i+1:]
		}
		i := slices.Index(element, ":")
		if i < 0 {
			return rewritten{computed: true}
		}
		to, ok := joined(element[i+1:], nil)
		if !ok {
			return rewritten{computed: true}
		}
		r.to, tokens = append(r.to, to...), rest
	}
	return r
}

// joined returns the addresses in a value whose parts are joined by dots. The types of the parts say
// which are addresses; without them the first is one.
func joined(tokens []string, types []string) (list []addrRange, ok bool) {
	for i := 0; i < len(tokens); i += 2 {
		r, isAddress := addresses(tokens[i])
		part := i / 2
		must := types == nil && part == 0 || part < len(types) && isAddressType(types[part])
		switch {
		case i > 0 && tokens[i-1] != ".", must && !isAddress:
			return nil, false
		case isAddress:
			list = append(list, r)
		}
	}
	return list, len(tokens)%2 == 1
}

func isAddressType(t string) bool { return t == "ipv4_addr" || t == "ipv6_addr" }

// addresses reads an address, a network or a range, which a port may follow. For a claim it returns
// the zero range: reachCheck.pool judges the addresses that claims get.
func addresses(token string) (r addrRange, ok bool) {
	token = strings.Trim(token, `"`)
	if ruleClaim.FindString(token) == token && token != "" {
		return r, true
	}
	if inside, bracketed := strings.CutPrefix(token, "["); bracketed {
		token = strings.TrimSuffix(inside, "]")
	} else if host, _, hasPort := strings.Cut(token, ":"); hasPort && strings.Count(host, ".") == 3 {
		token = host
	}
	if p, err := netip.ParsePrefix(token); err == nil {
		return addrRange{p.Masked().Addr(), lastOf(p)}, true
	}
	first, last, isRange := strings.Cut(token, "-")
	from, err := netip.ParseAddr(first)
	if err != nil || from.Zone() != "" {
		return r, false
	}
	to := from
	if isRange {
		if to, err = netip.ParseAddr(last); err != nil || to.Zone() != "" || to.BitLen() != from.BitLen() {
			return r, false
		}
	}
	return addrRange{from.Unmap(), to.Unmap()}, true
}

// lastOf returns the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// String returns the address, or the first and the last of the range.
func (r addrRange) String() string {
	if r.from == r.to {
		return r.from.String()
	}
	return r.from.String() + "-" + r.to.String()
}
