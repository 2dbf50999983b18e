// Package conditions translates the lists of resources.kubesphere.io/v1alpha2, with paging, conditions, orderBy and reverse, into queries.
//
// A condition becomes the parameter of today's lists that selects the same objects, so that the engine, its caches and its bounds are
// those of every other list. What no parameter selects becomes an expression, whose texts are quoted. What can't be translated is a 400
// that names the older parameter.
package conditions
