// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// writeTable brings the nftables table to elements in one transaction and says
// in a few words what changed; nothing when it was right.
func writeTable(elements map[string][]element) (changed string, err error) {
	n, err := openNFT()
	if err != nil {
		return "", err
	}
	defer n.close()
	whole, err := tableStands(n)
	if err != nil {
		return "", fmt.Errorf("read nftables table %s: %w", tableName, err)
	}
	changed, commands := "made anew", []netlink.Message(nil)
	if whole {
		changed, commands, err = changeSets(n, elements)
	} else {
		commands = makeTable(elements)
	}
	if err != nil {
		return "", fmt.Errorf("read nftables table %s: %w", tableName, err)
	}
	if err := n.commit(commands); err != nil {
		return "", fmt.Errorf("write nftables table %s: %w", tableName, err)
	}
	return changed, nil
}

// tableStands says whether the table has our chains, rules and sets, of this
// version and no others.
func tableStands(n *nft) (bool, error) {
	found, err := n.list(unix.NFT_MSG_GETCHAIN)
	if err != nil {
		return false, fmt.Errorf("list chains: %w", err)
	}
	number := 0
	for _, c := range found {
		if findText(c, unix.NFTA_CHAIN_TABLE) == tableName {
			number++
		}
	}
	if number != len(chains()) {
		return false, nil
	}
	if found, err = n.list(unix.NFT_MSG_GETSET, text(unix.NFTA_SET_TABLE, tableName)); err != nil {
		return false, fmt.Errorf("list sets: %w", err)
	}
	if len(found) != len(sets()) {
		return false, nil
	}
	marks, err := readMarks(n)
	if err != nil {
		return false, err
	}
	for _, c := range chains() {
		if !slices.EqualFunc(marks[c.name], c.rules, func(mark string, r rule) bool { return mark == r.mark() }) {
			return false, nil
		}
	}
	return true, nil
}

// mark is the comment of a rule in the kernel. Rules are told by it: it holds
// the form of the whole table.
func (r rule) mark() string { return r.comment + " #" + fingerprint() }

// readMarks returns the marks of the table's rules by chain, in order.
func readMarks(n *nft) (map[string][]string, error) {
	found, err := n.list(unix.NFT_MSG_GETRULE, text(unix.NFTA_RULE_TABLE, tableName))
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	marks := map[string][]string{}
	for _, r := range found {
		chain, mark := findText(r, unix.NFTA_RULE_CHAIN), ""
		// nft's userdata: type 0 is the comment, then its length.
		if u := find(r, unix.NFTA_RULE_USERDATA); len(u) > 2 && u[0] == 0 {
			mark = unix.ByteSliceToString(u[2:])
		}
		marks[chain] = append(marks[chain], mark)
	}
	return marks, nil
}

// makeTable replaces the table, whatever is there.
func makeTable(elements map[string][]element) []netlink.Message {
	table := text(unix.NFTA_TABLE_NAME, tableName)
	commands := []netlink.Message{
		command(unix.NFT_MSG_NEWTABLE, netlink.Create, table), // so that the deletion finds one
		command(unix.NFT_MSG_DELTABLE, 0, table),
		command(unix.NFT_MSG_NEWTABLE, netlink.Create, table),
	}
	for i, s := range sets() {
		commands = append(commands, s.create(uint32(i+1)))
		commands = append(commands, s.change(unix.NFT_MSG_NEWSETELEM, elements[s.name])...)
	}
	for _, c := range chains() {
		commands = append(commands, c.create())
		for _, r := range c.rules {
			commands = append(commands, r.append(c.name))
		}
	}
	return commands
}

func (c chain) create() netlink.Message {
	fields := []field{text(unix.NFTA_CHAIN_TABLE, tableName), text(unix.NFTA_CHAIN_NAME, c.name)}
	if c.kind != "" {
		fields = append(fields, text(unix.NFTA_CHAIN_TYPE, c.kind), u32(unix.NFTA_CHAIN_POLICY, nfAccept),
			nest(unix.NFTA_CHAIN_HOOK, u32(unix.NFTA_HOOK_HOOKNUM, c.hook), u32(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))))
	}
	return command(unix.NFT_MSG_NEWCHAIN, netlink.Create, fields...)
}

func (r rule) append(chain string) netlink.Message {
	mark := append([]byte(r.mark()), 0)
	return command(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append,
		text(unix.NFTA_RULE_TABLE, tableName), text(unix.NFTA_RULE_CHAIN, chain),
		nest(unix.NFTA_RULE_EXPRESSIONS, r.match...),
		field{Type: unix.NFTA_RULE_USERDATA, Data: append([]byte{0, byte(len(mark))}, mark...)})
}

// changeSets adds and deletes elements. Intervals are replaced as a whole: they
// change rarely, and an end has no meaning without its start.
func changeSets(n *nft, elements map[string][]element) (string, []netlink.Message, error) {
	var commands []netlink.Message
	added, deleted := 0, 0
	for _, s := range sets() {
		have, err := s.read(n)
		if err != nil {
			return "", nil, err
		}
		add, remove := difference(have, elements[s.name])
		added, deleted = added+len(add), deleted+len(remove)
		if s.interval && len(add)+len(remove) > 0 {
			commands = append(commands, s.empty())
			add, remove = elements[s.name], nil
		}
		commands = append(commands, s.change(unix.NFT_MSG_DELSETELEM, remove)...)
		commands = append(commands, s.change(unix.NFT_MSG_NEWSETELEM, add)...)
	}
	if len(commands) == 0 {
		return "", nil, nil
	}
	return fmt.Sprintf("%d elements added, %d deleted", added, deleted), commands, nil
}

func difference(have, want []element) (add, remove []element) {
	present := map[element]bool{}
	for _, e := range have {
		present[e] = true
	}
	for _, e := range want {
		if !present[e] {
			add = append(add, e)
		}
		delete(present, e)
	}
	return add, slices.SortedFunc(maps.Keys(present), element.compare)
}

// deleteTable removes the table; there need not be one.
func deleteTable() error {
	n, err := openNFT()
	if err != nil {
		return err
	}
	defer n.close()
	table := text(unix.NFTA_TABLE_NAME, tableName)
	if err := n.commit([]netlink.Message{
		command(unix.NFT_MSG_NEWTABLE, netlink.Create, table), // so that the deletion finds one
		command(unix.NFT_MSG_DELTABLE, 0, table),
	}); err != nil {
		return fmt.Errorf("delete nftables table %s: %w", tableName, err)
	}
	return nil
}
