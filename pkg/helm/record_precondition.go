package helm

import "strings"

// Noted is what is known of the records of a release: what its newest revision and the one that an operation would go back to were when an
// operation of this program left them. It is kept where nobody else writes. Whoever may write Secrets in the namespace of a release may
// write its records, and what they say is done with the rights of others.
type Noted struct {
	RecordDigest string `json:"recordDigest,omitempty"`
	BaseDigest   string `json:"baseDigest,omitempty"`
}

// Knows reports whether records are those that were noted: the newest one, and the one that an operation would go back to.
func (n Noted) Knows(r *Release) bool {
	return n.RecordDigest != "" && r.RecordDigest == n.RecordDigest &&
		(r.BaseDigest == "" || r.BaseDigest == n.RecordDigest || r.BaseDigest == n.BaseDigest)
}

// HasBegun reports whether the newest record is of an operation that has not ended, on one that was noted. Nothing is done with what such a
// record says.
func (n Noted) HasBegun(r *Release) bool {
	if r.Status != "failed" && !strings.HasPrefix(r.Status, "pending-") {
		return false
	}
	return r.BaseDigest == "" || r.BaseDeployed && (r.BaseDigest == n.RecordDigest || r.BaseDigest == n.BaseDigest)
}

// IsAfter reports whether an operation that found other records has written these; nil for none.
func (r *Release) IsAfter(before *Release) bool {
	return r != nil && (before == nil || r.Revision > before.Revision)
}

// After returns what is noted of the records that an operation has left. The revision that it would have gone back to is only noted where
// it was known before, or is the operation's own.
func After(r *Release, known bool) Noted {
	n := Noted{RecordDigest: r.RecordDigest}
	if known || r.BaseDigest == r.RecordDigest {
		n.BaseDigest = r.BaseDigest
	}
	return n
}

// HoldTo has an operation refused whose release has other records by then than these; nil for none.
func (r *Request) HoldTo(records *Release) {
	r.RecordDigest, r.BaseDigest = NoRecord, ""
	if records != nil {
		r.RecordDigest, r.BaseDigest = records.RecordDigest, records.BaseDigest
	}
}
