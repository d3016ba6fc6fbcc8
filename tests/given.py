"""Parameters of estimators for tests that are not about the choice of strengths."""

#: Strengths that are given: a fit trains once, and has a learned link however little that helps.
GIVEN = {"alpha": 1e-4, "link_alpha": 1e-4}
