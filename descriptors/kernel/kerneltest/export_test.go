package kerneltest

// NFT is a table as commands, for tests of others' tables.
var NFT = nftText
