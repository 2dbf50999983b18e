package row

// Item is an object, or a row of a Table, that says of which cluster it is. What says so is joined with what the cluster sent where it is
// written, and not before: that saves a copy of each object.
type Item struct {
	text string
	// mark is what belongs into text at a position; "" where it is there.
	mark string
	at   int
}

// Len returns how many bytes the item has, 0 for none.
func (i Item) Len() int { return len(i.text) + len(i.mark) }

// AppendTo appends the item.
func (i Item) AppendTo(dst []byte) []byte {
	return append(append(append(dst, i.text[:i.at]...), i.mark...), i.text[i.at:]...)
}

// Write writes the item, in pieces.
func (i Item) Write(text func(string)) {
	if i.mark != "" {
		text(i.text[:i.at])
		text(i.mark)
	}
	text(i.text[i.at:])
}

// String returns the item.
func (i Item) String() string { return i.text[:i.at] + i.mark + i.text[i.at:] }

// Sent returns the item as its cluster sent it, or with what says of which cluster it is: for what has nothing to do with that.
func (i Item) Sent() string { return i.text }

// In returns a row of a Table with columns as one of a Table with others.
func (i Item) In(columns, other Columns) Item { return Item{text: columns.As(other, i.String())} }
