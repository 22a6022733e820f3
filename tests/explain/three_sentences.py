"""The three sentences of the shape walkthrough, and German for them: 3, 6 and 5 tokens, and 3, 5 and 7."""

SOURCES = ["I love you", "I am in love with you", "I love you, too"]
TARGETS = ["Ich liebe dich", "Ich bin in dich verliebt", "Ich liebe dich auch sehr, ja"]
