package cases

// Absence is a case that has an id and is not put to clients yet, with the reason.
type Absence struct{ IDs, Why string }

// Absent are the cases that are missing. Their ids are kept for them.
var Absent = []Absence{
	{"dat.16", "a batch that unpacks to 4 GiB takes more memory than a judge should"},
	{"txp.12", "it takes an idempotent producer without transactions, which no driver has"},
}
