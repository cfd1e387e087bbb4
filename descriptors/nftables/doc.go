// Package nftables is the kind of tables of nftables.
//
// A value is a whole table, which is made and replaced in one transaction of the
// kernel. Ours bear our mark as their comment and are in the ledger; another table
// of the name is foreign and is not touched.
//
// Rules are text, and nft gives them back in its own spelling. So what is compared
// is what was read right after a table was written, which the ledger keeps, with
// what is read now. While they are the same the table is as it was asked.
package nftables
