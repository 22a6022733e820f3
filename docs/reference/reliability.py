"""The page of reliability: what is promised, what `make torture` found, the proof of traces, and each test.

The figures are those that `python tests/torture --json` and the benchmarks left in benchmarks/results. A test that
the page names must exist.
"""

from collections.abc import Iterator

from reference.markdown import code, page, table
from reference.measurements import ROOT, read
from reference.proof import proof_sections

PROMISED = (
    "A training that is killed, stopped or loses its power or its disk is **continued by the same command**, to the "
    "very same weights as without the interruption, bit for bit, with the same number of processes, on the same "
    "processor, with the same versions. The number of threads is kept with each checkpoint.",
    "In a checkpoint, a tokenizer or prepared text, **one changed bit is noticed** by the SHA-256 sum. Another "
    "checkpoint is used, or the text is prepared again, and a message says so; if neither is possible, the command "
    "ends with a status other than 0. No command prints a result of damaged weights.",
    "**Nothing is lost**: a checkpoint is deleted only after a newer one has been verified. Output files are written "
    "whole or not at all; only in a directory that takes no new files is an existing file overwritten, and a message "
    "says so. A training uses a new or empty directory, or its own.",
    "A `translate` of a **document** that is stopped or killed is continued by the same command, to the same output. "
    "Work of another text, model or option is not used.",
    "A run directory from a stranger **executes nothing**, is refused before it takes memory that its weights do not "
    "need, and cannot make a command write outside of it.",
    "A wrong input, a wrong option or a full disk gives **one message in words** and a status other than 0: see "
    "[Commands](commands.md). A fault of glassformer says that it is one, ends with 70, and leaves its traceback in "
    "a file.",
    "Ctrl-C and SIGTERM save and end a training; a second one ends it immediately. A closed pipe, as in `| head`, "
    "does not end a training.",
)
NOT_PROMISED = (
    "That a disk keeps what it has confirmed. A disk that loses synced data can lose a run; this is noticed, not "
    "undone.",
    "Secrecy or authorship. The sums detect accidents. Whoever can write to a run can also seal it again, and so "
    "change what it translates: only take models from people whom you trust with your translations.",
    "The section `decode` of `config.json` may be edited by hand; a flipped bit there that leaves a valid option is "
    "such an edit.",
    "The very same bits with other numbers of threads or processes, on another processor, or with another version of "
    "PyTorch. The log says when the number of threads or processes has changed. A training that chooses its threads, "
    "which is the default, may choose another number when it is started again from nothing: see [How many "
    "threads](training.md#how-many-threads).",
    "Races with somebody who changes the run while a command uses it, other than a training by glassformer.",
    "macOS and Windows: [a workflow](../.github/workflows/tests.yml) runs the tests on macOS; Windows was never "
    "tried, use WSL.",
)

GOING_ON, CLI, RUNS = "tests/training/test_resume.py", "tests/cli/test_cli.py", "tests/test_run_directory.py"
HOSTILE, CHECKPOINT, UNBOUNDED = (
    "tests/test_hostile_runs.py",
    "tests/test_checkpoint.py",
    "tests/text/test_unbounded.py",
)
PREPARE, TOKENIZER, WORKERS = (
    "tests/text/corpus/test_prepare.py",
    "tests/text/tokenizer/test_tokenizer.py",
    "tests/text/corpus/test_workers.py",
)
GROWTH, MARIAN = "tests/text/formats/test_growth.py", "tests/interop/test_marian.py"
FORMATS = "tests/documents/test_formats.py"
JOURNAL, SHARDS, OUTPUTS = "tests/documents/test_journal.py", "tests/cli/test_shards.py", "tests/cli/test_outputs.py"
TRAIN, TORTURE = "tests/training/test_train.py", "tests/torture/interruptions.py"
CPU = "tests/training/loop/test_cpu.py"
# What once went wrong, and the tests that hold it right.
HOLES: list[tuple[str, list[tuple[str, str]]]] = [
    ("Training went on with damaged text", [
        (GOING_ON, "test_a_flipped_bit_in_the_text_is_noticed_and_the_weights_are_the_same"),
        (PREPARE, "test_a_damaged_preparation_is_made_again"),
        (PREPARE, "test_contents_that_cannot_be_true_are_prepared_again")]),
    ("`train | head` ended the training and saved nothing", [
        (CLI, "test_a_training_goes_on_when_the_reader_of_its_lines_leaves")]),
    ("A power cut in the first seconds lost the run", [
        (TORTURE, "cut_the_power")]),
    ("The final model was deleted before its successor was there", [
        (CHECKPOINT, "test_whenever_a_process_is_killed_the_old_or_the_new_checkpoint_is_whole"),
        (GOING_ON, "test_a_checkpoint_whose_process_was_killed_before_its_last_step_is_adopted"),
        (GOING_ON, "test_a_model_that_stands_in_for_a_lost_final_one_is_told")]),
    ("Translating with a run that trains failed now and then", [
        (CHECKPOINT, "test_a_reader_finds_a_whole_checkpoint_while_a_training_saves")]),
    ("Any directory was taken for a new run", [
        (RUNS, "test_a_directory_that_no_training_wrote_is_refused_before_a_byte_is_written"),
        (CLI, "test_an_empty_name_of_a_run_is_not_the_current_directory"),
        (GOING_ON, "test_what_a_start_leaves_that_did_not_come_far_is_begun_anew")]),
    ("Links in a run led writers out of it", [
        (RUNS, "test_a_link_in_a_run_is_refused_before_a_byte_is_written"),
        (RUNS, "test_no_writer_follows_a_link_that_appears_later"),
        (CHECKPOINT, "test_a_series_that_is_a_link_is_not_written"),
        (PREPARE, "test_a_preparation_leads_nowhere_else")]),
    ("A hostile tokenizer took all time or memory", [
        (TOKENIZER, "test_parts_that_no_training_writes_are_refused"),
        (TOKENIZER, "test_models_that_no_training_writes_are_refused"),
        (TOKENIZER, "test_a_file_that_is_too_large_or_too_deep_is_refused")]),
    ("A crafted configuration took gigabytes", [
        (HOSTILE, "test_configurations_of_other_sizes_are_refused_without_taking_their_memory"),
        (HOSTILE, "test_a_manifest_of_nothing_does_not_verify"),
        (HOSTILE, "test_a_pipe_in_the_place_of_a_file_does_not_hang")]),
    ("Another model in config.json translated without a warning", [
        (GOING_ON, "test_another_model_in_config_is_refused_and_other_options_of_decoding_are_not"),
        (GOING_ON, "test_a_damaged_tokenizer_is_noticed_at_the_start_and_its_copy_is_named")]),
    ("Tracebacks", [
        (CLI, "test_what_nobody_foresaw_is_said_to_be_our_fault_with_the_details_in_a_file"),
        (CLI, "test_a_second_signal_of_the_other_kind_ends_a_training_at_once"),
        ("tests/trace/test_record.py", "test_a_place_where_no_trace_can_be_is_refused_in_words"),
        ("tests/text/test_deep.py", "test_what_is_nested_without_end_is_read_or_refused"),
        ("tests/decoding/engines/test_worker_pool.py", "test_what_there_is_not_is_refused"),
        (HOSTILE, "test_counters_of_wrong_types_are_refused")]),
    ("Input without an end", [
        (UNBOUNDED, "test_a_line_without_an_end_is_refused_before_it_is_read"),
        (UNBOUNDED, "test_a_pipe_or_a_device_is_refused_at_once"),
        (UNBOUNDED, "test_no_room_is_made_for_a_billion_plural_forms"),
        (UNBOUNDED, "test_every_number_has_a_highest_value")]),
    ("Small things", [
        (HOSTILE, "test_weights_that_are_not_finite_are_refused_by_every_command"),
        (HOSTILE, "test_a_run_whose_checkpoints_are_all_damaged_is_said_to_be_so"),
        (UNBOUNDED, "test_text_of_a_process_substitution_is_refused_in_words"),
        ("tests/text/test_lines.py", "test_utf_32_is_named"),
        ("tests/training/teachers/test_diversify.py", "test_translations_from_before_a_stop_are_reused"),
        (CLI, "test_help_for_a_reader_that_has_left_is_no_error"),
        (CHECKPOINT, "test_all_files_of_a_checkpoint_have_the_mode_of_an_ordinary_file"),
        ("tests/trace/test_taps.py", "test_a_block_inside_a_block_is_refused_and_the_outer_one_goes_on"),
        ("tests/test_files.py", "test_what_is_replaced_keeps_its_permissions_and_an_error_keeps_it")]),
    ("A document took all time", [
        (GROWTH, "test_many_segments_take_proportional_time"),
        (GROWTH, "test_hostile_pages_take_proportional_time"),
        (GROWTH, "test_hostile_markdown_takes_proportional_time"),
        (GROWTH, "test_hostile_tables_take_proportional_time"),
        (GROWTH, "test_a_long_text_and_a_long_line_take_proportional_time"),
        (GROWTH, "test_messages_in_a_message_take_proportional_time"),
        (GROWTH, "test_many_signs_before_a_code_and_in_it_take_proportional_time"),
        ("tests/documents/test_translate_file.py",
         "test_what_is_said_of_a_text_that_a_file_has_again_is_printed_once"),
        (GROWTH, "test_a_code_among_many_words_is_placed_in_proportional_time")]),
    ("A glossary or a memory took seconds for each text", [
        (GROWTH, "test_the_terms_of_a_large_glossary_hardly_cost_time"),
        (GROWTH, "test_a_large_glossary_and_one_long_text_take_proportional_time"),
        (GROWTH, "test_nonsense_of_a_memory_is_compared_within_bounds")]),
    ("Few bytes took gigabytes", [
        ("tests/explain/test_walk.py",
         "test_a_batch_whose_attention_would_fill_the_memory_is_refused_before_it_is_recorded"),
        ("tests/text/corpus/test_corpus.py", "test_a_bomb_of_attributes_is_refused_before_its_elements_are_made"),
        (UNBOUNDED, "test_a_row_of_more_columns_than_spreadsheets_have_is_refused"),
        (UNBOUNDED, "test_a_workbook_whose_few_cells_make_many_is_refused"),
        (UNBOUNDED, "test_a_workbook_that_declares_attributes_is_refused"),
        (MARIAN, "test_aliases_of_yaml_are_refused_before_they_grow"),
        (MARIAN, "test_json_of_another_program_without_end_is_refused_before_it_is_read"),
        (HOSTILE, "test_json_without_end_is_refused_before_it_is_read"),
        (HOSTILE, "test_weights_that_name_tensors_without_end_are_refused_before_these_are_made"),
        (UNBOUNDED, "test_a_small_file_that_unpacks_to_very_many_lines_is_refused"),
        (MARIAN, "test_names_with_escapes_are_read_without_the_slow_reader_of_yaml"),
        ("tests/text/tokenizer/test_sentencepiece.py", "test_a_model_of_many_fields_is_refused")]),
    ("Markup, or a formula, came in with a translation", [
        (FORMATS, "test_no_markup_comes_in_with_a_translation"),
        (FORMATS, "test_a_cell_that_a_spreadsheet_would_compute_is_doubtful")]),
    ("A wrong type at a door of the API ended in a bare TypeError", [
        ("tests/documents/test_wrong_types.py", "test_a_wrong_value_is_one_of_our_errors")]),
    ("A wrong output was noticed after the work", [
        (OUTPUTS, "test_an_output_below_a_file_is_refused_before_a_model_is_read"),
        (OUTPUTS, "test_a_file_that_cannot_be_written_is_refused_before_a_model_is_read"),
        (OUTPUTS, "test_a_directory_that_holds_something_else_is_refused_before_a_model_is_read"),
        (OUTPUTS, "test_no_output_overwrites_an_input_or_another_output"),
        (CLI, "test_an_output_of_shards_that_cannot_be_written_is_said_before_a_model_is_loaded")]),
    ("A stop lost what was done of a document", [
        (JOURNAL, "test_a_stopped_translation_goes_on_to_the_same_file_and_report"),
        (JOURNAL, "test_a_killed_command_goes_on_with_the_same_command"),
        (JOURNAL, "test_another_text_model_or_glossary_takes_nothing_of_it"),
        ("tests/test_files.py", "test_what_is_written_over_says_so"),
        (SHARDS, "test_after_an_error_in_the_text_the_lock_is_free_only_when_the_half_file_is_gone")]),
    ("More threads than cores", [
        (WORKERS, "test_a_process_that_is_held_to_one_core_uses_one_thread"),
        (WORKERS, "test_the_limit_of_a_container_is_read"),
        ("tests/test_threads.py", "test_a_command_takes_its_share_of_the_cores_unless_a_person_has_named_a_number")]),
    ("Waiting for threads whose cores other programs use", [
        (CPU, "test_the_fastest_number_is_taken")]),
    ("Resuming with other settings", [
        (TRAIN, "test_another_setting_or_another_text_in_the_same_directory_is_refused"),
        (TRAIN, "test_other_settings_and_other_text_can_be_forced_and_are_kept_in_the_log"),
        (TRAIN, "test_a_training_that_diverges_may_go_back_with_half_the_rate_three_times")]),
    ("Resuming bit for bit", [
        ("tests/training/loop/test_exact_resume.py", "test_a_training_cut_at_many_updates_ends_with_the_same_bits"),
        (CPU, "test_after_a_stop_each_update_has_the_threads_that_it_had"),
        (TORTURE, "kill_at_file_system_events"),
        ("tests/training/objective/test_golden.py", "test_the_first_losses_are_those_of_the_repository"),
        ("tests/test_earlier_run.py", "test_it_translates_as_then")]),
]  # fmt: skip


def reliability_page() -> str:
    return page(
        "Reliability and proof",
        "What is promised when a process is killed, a disk is full or a file is damaged or hostile; how that was "
        "tried; and how a trace is proven right.",
        "## Promised",
        *_points(PROMISED),
        "## Not promised",
        *_points(NOT_PROMISED),
        "## How it was tried",
        *_torture(),
        *_attacks(),
        *_growth(),
        *proof_sections(),
        "## What once went wrong, and its tests",
        table(["what", "tests"], ((what, ", ".join(map(_test_link, tests))) for what, tests in HOLES)),
    )


def _points(points: tuple[str, ...]) -> Iterator[str]:
    yield "\n".join(f"- {point}" for point in points)


def _test_link(test: tuple[str, str]) -> str:
    """A test by its name, with a link to its file."""
    file, name = test
    if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8"):
        raise SystemExit(f"docs/reference/reliability.py: {file} has no {name}.")
    return f"[{code(name)}](../{file})"


def _torture() -> Iterator[str]:
    found = read("torture.json")
    faults = [row for rows in found["faults"].values() for row in rows]
    machine = found["machine"]
    yield (
        "`make torture` runs real kills, real signals, real full disks and a real file system without power. A fault "
        "is survived if the command gives the right result, or says what is wrong and ends with a status other than "
        "0; if nothing is lost; and if the same command repeated leads a training to the very same weights. A wrong "
        "result or a loss without a word is *silent*; minutes or three gigabytes are a hang. Of "
        f"{found['date']}, on {machine['processor']}, {machine['cores']} cores, PyTorch {machine['torch']}, Python "
        f"{machine['python']}:"
    )
    columns = ("injections", "survived", "silent", "tracebacks", "hangs")
    rows = [
        [row["fault"], *([f"skipped: {row['skipped']}"] if row["skipped"] else [f"{row[key]:,}" for key in columns])]
        for row in faults
    ]
    total = ["**all**", *(f"**{sum(row[key] for row in faults):,}**" for key in columns)]
    yield table(["fault", *columns], [*(row + [""] * (6 - len(row)) for row in rows), total])
    yield (
        "Ctrl-C before Python has loaded its module `site`, and so before any program can act, is left out: the "
        "traceback is Python's own."
    )
    yield "`make torture MINUTES=2` is the form that `.ci/run` calls; the exit status is 1 unless all is survived."


def _attacks() -> Iterator[str]:
    """The attacks on documents that cost most; nothing before there are figures."""
    tallies = read("torture.json")["faults"].get("documents", ())
    rows = [row for tally in tallies for row in tally["rows"]]
    if not rows:
        return
    names = {row["attack"] for row in rows}
    slow, large = (max(rows, key=lambda row: row[key]) for key in ("seconds", "mb"))
    yield "### Hostile documents"
    yield (
        f"{len(names)} kinds of documents, pairs and foreign models: nested without end, declarations that grow, and "
        "1 MB of one pattern (brackets, links, numbers, line ends ...) in each format. The model is replaced by one "
        "that answers `<img src=x onerror=alert(1)>` in no time, which must come out as text. More than 20 seconds "
        f"of processor time or 1,500 MB count as a hang. Most time: {slow['seconds']:.1f} s ({slow['attack']} in "
        f"{slow['format']}, {slow['bytes']:,} bytes); most memory: {large['mb']:,} MB ({large['attack']} in "
        f"{large['format']}). [torture.json](../benchmarks/results/torture.json) has each."
    )


def _growth() -> Iterator[str]:
    """What a large file of each format takes."""
    found = read("documents.json")["now"]
    machine = found["machine"]
    yield "### Large documents"
    yield (
        "`benchmarks/documents.py`: filling a file of texts with codes, with a translation that takes no time, so "
        "everything but the model. The exponent is the growth since a quarter of the texts: 1 is proportional, and "
        "tests hold each format to it. A glossary and a memory of so many entries are asked for 1,000 texts. On "
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}:"
    )
    rows = (
        [name, f"{row['segments']:,}", f"{row['cpu_seconds']:.1f}", f"{row['exponent']:.2f}", f"{row['peak_mb']:,}"]
        for name, row in found["formats"].items()
    )
    yield table(["format", "texts", "processor seconds", "exponent", "MB"], rows)
