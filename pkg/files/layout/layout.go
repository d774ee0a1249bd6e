// Package layout has the names in the root of a volume that are not files of its user. The driver
// writes them, and liveconfig-exec reads through them. They are the kubelet's.
//
// It does not know what the names lead to.
package layout

// Reserved begins the names that belong to a volume itself. An item must not use them.
const Reserved = ".."

// DataLink is the link to the directory that has the files of a volume now.
const DataLink = Reserved + "data"
