package config

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// rootLogger is the one logger that a node has. Its level is kept and answered; it changes nothing else.
const rootLogger = "root"

var logLevels = []string{"DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"}

// alterLoggers sets levels of the node's loggers. They are not stored: a restart forgets them.
// Source: core ConfigAdminManager.scala, validateLogLevelConfigs.
func (s *State) alterLoggers(nodeID int32, q request, validateOnly bool) *refusal {
	if failed := nameIsNode(q.name, nodeID, "Unexpected node id. Expected %d, but received %d"); failed != nil {
		return failed
	}
	loggers := s.nodes[nodeID].loggers
	for _, o := range q.ops {
		switch o.kind {
		case kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete:
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			return refuse(errorcode.InvalidRequest, opName(o.kind)+" operation is not allowed for the BROKER_LOGGER resource")
		default:
			return refuse(errorcode.InvalidRequest, fmt.Sprintf("Unknown operation type %d is not allowed for the BROKER_LOGGER resource", o.kind))
		}
		if _, ok := loggers[o.key]; !ok {
			return refuse(errorcode.InvalidConfig, "Logger "+o.key+" does not exist!")
		}
		if o.kind == kmsg.IncrementalAlterConfigOpDelete {
			return refuse(errorcode.InvalidRequest, "Removing the log level of the root logger is not allowed")
		}
		if !slices.Contains(logLevels, *o.value) {
			return refuse(errorcode.InvalidConfig, fmt.Sprintf("Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN", o.key, *o.value))
		}
	}
	if !validateOnly {
		for _, o := range q.ops {
			loggers[o.key] = *o.value
		}
	}
	return nil
}
