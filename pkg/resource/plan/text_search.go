package plan

import "kapis.dev/ks-apiserver/pkg/store/index"

// searchAbove is how many objects a plan may test without asking an index of texts.
const searchAbove = 2000

// textSearch calls keep with the objects that may contain the longest text of the plan, and reports whether an index could
// answer.
func (p *Plan) textSearch(snap *index.Snapshot, keep func(*index.Ref) bool) bool {
	if text := longest(p.texts); text != "" && snap.Containing(text, keep) {
		return true
	}
	word := longest(p.words)
	return word != "" && snap.Mentioning(word, keep)
}

func longest(texts []string) (out string) {
	for _, t := range texts {
		if len(t) > len(out) {
			out = t
		}
	}
	return out
}
