package recording

import (
	"encoding/json"
	"time"
)

// sidecar is what is known of a recording besides the cast.
type sidecar struct {
	Session string   `json:"session"`
	User    userRef  `json:"user"`
	Source  string   `json:"source,omitempty"`
	AuditID string   `json:"auditID,omitempty"`
	Where   location `json:"where"`
	Input   bool     `json:"input"` // whether what was typed is recorded
	Began   string   `json:"began"`
	// What follows is known at the end.
	Ended    string     `json:"ended,omitempty"`
	Code     int        `json:"code,omitempty"`
	Exit     *int       `json:"exit,omitempty"`
	BytesIn  int64      `json:"bytesIn"`
	BytesOut int64      `json:"bytesOut"`
	Cast     *castFacts `json:"cast,omitempty"`
}

type userRef struct {
	Username string `json:"username"`
	UID      string `json:"uid,omitempty"`
}

type location struct {
	Node      string `json:"node,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
}

// castFacts are those of a cast that was written.
type castFacts struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Complete means that nothing is missing.
	Complete bool `json:"complete"`
}

// sidecar returns the sidecar; of is nil while the session goes on.
func (rec *recording) sidecar(of *castFacts) []byte {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	s := rec.subject
	c := sidecar{
		Session: rec.id, User: userRef{s.User, s.UID}, Source: s.Source, AuditID: s.AuditID, Input: rec.of.Input,
		Where: location{s.Node, s.Namespace, s.Pod, s.Container}, Began: rec.began.UTC().Format(time.RFC3339Nano),
	}
	if of != nil {
		c.Cast, c.Ended, c.Code = of, rec.end.at.UTC().Format(time.RFC3339Nano), int(rec.end.Code)
		c.BytesIn, c.BytesOut = rec.end.in, rec.end.out
		if rec.end.Exit >= 0 {
			c.Exit = &rec.end.Exit
		}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return []byte("{}") // texts and numbers can't fail
	}
	return append(raw, '\n')
}
