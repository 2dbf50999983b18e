package index

// chunkSize is how many records one chunk of the table has: what an update copies once per snapshot.
const chunkSize = 128

// table maps the ids of refs to records. Its chunks are shared between snapshots; the writer copies a chunk before it
// changes it for the first time in its epoch.
type table struct {
	chunks []*chunk
	free   []uint32
	next   uint32
	epoch  uint64
	shared bool // chunks itself is part of a snapshot
}

type chunk struct {
	epoch   uint64
	records [chunkSize]*Record
}

// add gives a record an id of its own.
func (t *table) add(r *Record) {
	id := t.next
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.next++
	}
	r.id = id
	t.set(r)
}

// set stores r at its id.
func (t *table) set(r *Record) { t.slot(r.id, r) }

// remove clears an id, and keeps it for another record.
func (t *table) remove(id uint32) {
	t.slot(id, nil)
	t.free = append(t.free, id)
}

func (t *table) slot(id uint32, r *Record) {
	if t.shared {
		t.chunks, t.shared = append([]*chunk(nil), t.chunks...), false
	}
	at := int(id / chunkSize)
	if at == len(t.chunks) {
		t.chunks = append(t.chunks, &chunk{epoch: t.epoch})
	}
	c := t.chunks[at]
	if c.epoch != t.epoch {
		c = &chunk{epoch: t.epoch, records: c.records}
		t.chunks[at] = c
	}
	c.records[id%chunkSize] = r
}

// snapshot returns the present chunks; later changes of the table are made to copies.
func (t *table) snapshot() []*chunk {
	t.shared = true
	t.epoch++
	return t.chunks
}
