package cases

// Absence is a case that has an id and is not put to clients yet, with the reason.
type Absence struct{ IDs, Why string }

// Absent are the cases that are missing. Their ids are kept for them.
var Absent = []Absence{
	{"mem.29, fet.09", "they tell how a client goes on whose application does not poll for seconds, which no driver does"},
	{"rnw.10, ldr.12, cls.08", "not written yet"},
	{"dlv.14, lck.02", "they take two drivers at a time"},
	{"dlv.10", "offsets near 2^63 take a partition whose log begins there"},
	{"dat.16", "a batch that unpacks to 4 GiB takes more memory than a judge should"},
	{"sec.01 to sec.07", "no driver logs in or speaks TLS yet"},
	{"ktx.01 to ktx.12", "no client acknowledges in transactions yet: KIP-1289 is proposed only"},
	{"grp.04, grp.05, grp.08, grp.09, grp.13, grp.17", "not written yet"},
	{"txp.03, txp.07, txp.10, txp.12, txp.16", "not written yet"},
	{"efc, emd, eav", "errors of FindCoordinator, Metadata and ApiVersions: neg, mem.27 and ldr have some of them"},
}
