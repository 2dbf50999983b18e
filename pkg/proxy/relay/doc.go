// Package relay is what all servers that pass requests on share: which headers go along, which answers come back, and how long requests
// end.
package relay
