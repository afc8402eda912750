package control

import (
	"context"
	"net/http"

	"kshare"
	"kshare/internal/jsonhttp"
)

func (s *server) judge() (*kshare.Judge, error) {
	j := s.cluster.Judge()
	if j == nil {
		return nil, jsonhttp.Refuse(http.StatusConflict, "clients are not judged: start kshare with --judge")
	}
	return j, nil
}

// getJudge tells the verdicts so far.
func (s *server) getJudge(context.Context, *struct{}) (*kshare.JudgeReport, error) {
	j, err := s.judge()
	if err != nil {
		return nil, err
	}
	return j.Report(), nil
}

// resetJudge forgets the verdicts.
func (s *server) resetJudge(context.Context, *struct{}) (*nothing, error) {
	j, err := s.judge()
	if err != nil {
		return nil, err
	}
	j.Reset()
	return nil, nil
}
