"""Pages for a browser: templates that escape every value, one stylesheet, one script, and the headers of responses.

Imports `plimsoll.http.types` and `plimsoll.text`; Jinja2 is imported when the first page is drawn, as it takes about 10 MB.
"""
