package extensionrelease

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/controller/hookjob"
	"kapis.dev/ks-apiserver/pkg/controller/note"
)

// HookNotes returns the notes of the images that are to run before removals.
func HookNotes(c client.Client, live client.Reader) note.Book[hookjob.Note] {
	return note.Book[hookjob.Note]{Client: c, Live: live, Key: hookjob.NoteKey}
}
