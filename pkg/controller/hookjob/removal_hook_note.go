package hookjob

import "encoding/json"

// NoteKey is that of notes in their ConfigMaps.
const NoteKey = "hook.json"

// Note is the image that runs before something is removed, with what was approved when that was installed: at its removal neither the chart
// nor the version need be there any more.
type Note struct {
	Image     string `json:"image"`
	Namespace string `json:"namespace"`
	// Bound are the rights that were approved, as who notes them encodes them.
	Bound json.RawMessage `json:"bound"`
	// Done says that it has run for the removal that is under way.
	Done bool `json:"done,omitempty"`
}
