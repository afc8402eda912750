package replay

// Recording makes a recording of what was played: the steps as the broker answered them now, with the ids that it made
// up and the times that it took. The session's script fits it.
func (r *Report) Recording() *Session {
	s := &Session{Name: r.Session}
	for _, p := range r.Steps {
		st := *p.Step
		st.Took, st.End, st.Repeats, st.RepeatSpan = p.Took, p.End, p.Repeats, p.Span
		if st.Raw && p.Outcome == Answered {
			st.End += stillOpenWait
		}
		st.Request, st.Answers, st.Outcome = p.Request, p.Answers, p.Outcome
		s.Steps = append(s.Steps, &st)
	}
	return s
}
