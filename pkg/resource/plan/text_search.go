package plan

import "kapis.dev/ks-apiserver/pkg/store/index"

// searchAbove is how many objects a plan may have to look at without asking an index of texts.
const searchAbove = 2000

// textSearch calls keep with what may contain the longest text that the plan asks for, and tells whether there is an index
// that knows.
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
