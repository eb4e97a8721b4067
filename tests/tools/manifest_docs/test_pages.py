from tools.manifest_docs.pages import component_pages

PAGES = component_pages()


def test_a_component_stands_on_the_page_of_its_family() -> None:
    assert "\n## OffsetIncrement\n" in PAGES["pagination-strategy.md"]
    assert "\n## CustomPaginationStrategy\n" in PAGES["pagination-strategy.md"]
    assert "\n## DeclarativeSource\n" in PAGES["source.md"]


def test_a_part_stands_on_the_page_of_what_it_is_a_part_of() -> None:
    assert "\n## RecordSelector\n" in PAGES["retriever.md"]
    assert "\n## ComplexFieldType\n" in PAGES["schema-loader.md"]


def test_a_row_says_what_a_field_takes() -> None:
    rows = PAGES["retriever.md"].splitlines()

    requester = "[Requester](requester.md) (`HttpRequester` without a `type`)"
    assert f"| `requester` | {requester} | required | The request for the records. |" in rows
    selector = "| `record_selector` | [RecordSelector](#recordselector) | required | Turns a response into records. |"
    assert selector in rows


def test_what_a_field_is_made_of_stands_below_its_component() -> None:
    page = component_pages()["authenticator.md"]

    assert "| `refresh_token_updater` | [RefreshTokenUpdater](#refreshtokenupdater) |" in page
    _, _, below = page.partition("### RefreshTokenUpdater\n")
    assert "| `refresh_token_config_path` | a list of strings |" in below.partition("\n## ")[0]


def test_the_index_leads_to_every_component() -> None:
    headings = [line[3:] for name, page in PAGES.items() for line in page.splitlines() if line.startswith("## ")]

    assert [name for name in headings if f"#{name.lower()})" not in PAGES["index.md"]] == []
