"""The translator page at the root of the server: what a browser gets, and what programs still get."""

import re

import pytest

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_gets_the_page_and_a_program_the_links(client):
    page = client.get("/", headers=BROWSER)
    assert page.headers["content-type"].startswith("text/html")
    assert "Accept" in page.headers["vary"]
    assert client.get("/").json()["links"]["languages"] == "/languages"


def test_the_policy_of_the_page_allows_nothing_inline_and_nothing_foreign(client):
    page = client.get("/", headers=BROWSER)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "set-cookie" not in page.headers
    assert not re.search(r"<style|\son\w+=|style=|<script(?! type=\"module\" src=)", page.text)


def test_every_file_that_the_page_names_is_there_and_is_asked_for_again(client):
    names = re.findall(r'(?:href|src)="(page/[^"]+)"', client.get("/", headers=BROWSER).text)
    assert len(names) >= 3
    for name in names:
        answer = client.get(f"/{name}")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache"), name


@pytest.mark.parametrize("name", ["nothing.js", "../writer.py", "%2e%2e/writer.py", "styles"])
def test_nothing_else_is_served(client, name):
    assert client.get(f"/page/{name}").status_code in (404, 405)


def test_a_translated_file_says_what_should_be_looked_at(client):
    form = {"source": "en", "target": "de"}
    answer = client.post("/translate_file", data=form, files={"file": ("a.txt", "I love you.\nXqzv wkjhp bnmtr.\n")})
    (remark,) = answer.json()["check"]
    assert (remark["line"], remark["source"]) == (2, "Xqzv wkjhp bnmtr.")
    assert "probably wrong" in remark["remark"]
