// Package recording records what terminals show, and on demand what is typed, as asciicast v2
// (https://docs.asciinema.org/manual/asciicast/v2/), into a folder or to a webhook.
//
// Events wait in a bounded queue for a goroutine that writes them. In the mode BestEffort a session is never held up by that: what does
// not fit is left out, and the cast has a marker there. In the mode Strict a session waits for room, and ends where nothing is written.
package recording
