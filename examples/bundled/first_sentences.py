"""Sixty sentences that people type first when they try a translator, each with a translation to compare with.

They were written before the training of the model that they show. The card shows every answer, and says which of them
are training sources: people type what is common.
"""

SENTENCES: dict[str, dict[str, str]] = {
    "greetings": {
        "Hello!": "Hallo!",
        "Good morning!": "Guten Morgen!",
        "Good night, sleep well.": "Gute Nacht, schlaf gut.",
        "How are you?": "Wie geht es dir?",
        "Nice to meet you.": "Freut mich, dich kennenzulernen.",
        "What is your name?": "Wie heißt du?",
        "Thank you very much for your help.": "Vielen Dank für deine Hilfe.",
        "See you tomorrow!": "Bis morgen!",
    },
    "travel": {
        "Where is the train station?": "Wo ist der Bahnhof?",
        "How much does a ticket to Berlin cost?": "Wie viel kostet eine Fahrkarte nach Berlin?",
        "I would like to book a room for two nights.": "Ich möchte ein Zimmer für zwei Nächte buchen.",
        "Our flight was delayed by three hours.": "Unser Flug hatte drei Stunden Verspätung.",
        "Turn left at the next traffic light.": "Biegen Sie an der nächsten Ampel links ab.",
        "Is there a pharmacy near here?": "Gibt es hier in der Nähe eine Apotheke?",
        "I have lost my passport.": "Ich habe meinen Reisepass verloren.",
        "When does the museum open on Sundays?": "Wann öffnet das Museum sonntags?",
    },
    "food": {
        "I am hungry.": "Ich habe Hunger.",
        "Could we have the bill, please?": "Könnten wir bitte die Rechnung haben?",
        "A cup of coffee with milk, please.": "Eine Tasse Kaffee mit Milch, bitte.",
        "I don't eat meat.": "Ich esse kein Fleisch.",
        "The soup is too hot.": "Die Suppe ist zu heiß.",
        "What do you want for breakfast?": "Was möchtest du zum Frühstück?",
        "My grandmother bakes the best apple pie.": "Meine Großmutter backt den besten Apfelkuchen.",
        "Don't forget to buy bread and butter.": "Vergiss nicht, Brot und Butter zu kaufen.",
    },
    "weather": {
        "It is raining.": "Es regnet.",
        "It will be sunny tomorrow.": "Morgen wird es sonnig.",
        "It was so cold that the lake froze.": "Es war so kalt, dass der See zufror.",
        "Take an umbrella with you.": "Nimm einen Regenschirm mit.",
        "The storm destroyed many houses.": "Der Sturm hat viele Häuser zerstört.",
        "I like walking in the snow.": "Ich gehe gern im Schnee spazieren.",
    },
    "small talk": {
        "I love you.": "Ich liebe dich.",
        "What are you doing this weekend?": "Was machst du am Wochenende?",
        "My brother is two years older than me.": "Mein Bruder ist zwei Jahre älter als ich.",
        "I work in a small office in the city centre.": "Ich arbeite in einem kleinen Büro in der Innenstadt.",
        "She plays the piano very well.": "Sie spielt sehr gut Klavier.",
        "We have known each other since we were children.": "Wir kennen uns, seit wir Kinder waren.",
        "He wants to become a doctor.": "Er möchte Arzt werden.",
        "Do you like music?": "Magst du Musik?",
        "I forgot to call you yesterday.": "Ich habe vergessen, dich gestern anzurufen.",
        "My daughter goes to school by bus.": "Meine Tochter fährt mit dem Bus zur Schule.",
        "Can you help me move the table?": "Kannst du mir helfen, den Tisch zu verschieben?",
        "I have never been to Japan.": "Ich war noch nie in Japan.",
    },
    "proverbs": {
        "All that glitters is not gold.": "Es ist nicht alles Gold, was glänzt.",
        "The early bird catches the worm.": "Der frühe Vogel fängt den Wurm.",
        "Practice makes perfect.": "Übung macht den Meister.",
        "Actions speak louder than words.": "Taten sagen mehr als Worte.",
    },
    "news": {
        "The government wants to lower taxes next year.": "Die Regierung will im nächsten Jahr die Steuern senken.",
        "Two people were injured in the accident.": "Bei dem Unfall wurden zwei Menschen verletzt.",
        "The president met the prime minister in Paris on Monday.":
            "Der Präsident traf am Montag in Paris den Premierminister.",
        "Scientists have discovered a new planet.": "Wissenschaftler haben einen neuen Planeten entdeckt.",
        "The price of oil has risen again.": "Der Ölpreis ist wieder gestiegen.",
        "Thousands of people protested against the new law.":
            "Tausende Menschen protestierten gegen das neue Gesetz.",
    },
    "learning machines": {
        "Attention is all you need.": "Aufmerksamkeit ist alles, was du brauchst.",
        "The animal didn't cross the street because it was too tired.":
            "Das Tier überquerte die Straße nicht, weil es zu müde war.",
        "The animal didn't cross the street because it was too wide.":
            "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
        "The model reads a sentence and writes it in another language.":
            "Das Modell liest einen Satz und schreibt ihn in einer anderen Sprache.",
        "A computer can learn to translate.": "Ein Computer kann lernen zu übersetzen.",
        "Every word looks at all the other words.": "Jedes Wort schaut alle anderen Wörter an.",
        "The quick brown fox jumps over the lazy dog.": "Der schnelle braune Fuchs springt über den faulen Hund.",
        "This sentence is a test.": "Dieser Satz ist ein Test.",
    },
}  # fmt: skip
