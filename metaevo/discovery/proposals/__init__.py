"""Judge proposed programs: a race on search seeds, an archive, verdicts on held-out seeds.

reading -> judge -> trials, archive
"""
