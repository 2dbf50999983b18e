// Package feed reads one kind from kube-apiserver for client-go's Reflector: lists, watches and initial events, as the
// objects' bytes.
//
// A watch on which much arrives is read in batches: kube-apiserver writes each event by itself, and waking up for each costs more
// than reading it. So a busy connection sleeps some milliseconds between two reads (batchingConn), and what was read together
// is handed on together (EventBatch).
package feed
