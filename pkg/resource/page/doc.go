// Package page writes pages of lists and single objects as answers.
//
// A Page has the records of one page. The second time that a page is the same, its bytes are cached, and compressed where a
// client takes gzip (Cache). The head of an answer (resource version, totals, facets) is written each time.
package page
