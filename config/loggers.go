package config

// rootLogger is the one logger that a node has.
const rootLogger = "root"
