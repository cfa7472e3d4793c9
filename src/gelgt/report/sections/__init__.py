"""The sections of the report, in the order of the page. Each has `section(run)`: its HTML, or a
sentence that says what is missing."""
