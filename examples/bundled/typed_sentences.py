"""A hundred and twenty texts in twelve kinds, as people type them into a translator, and rules to judge answers by.

They were written before the training with noise (``text.noise_*``), and none was changed or left out afterwards. The
translations are one possibility each. An answer is judged by these rules:

right: says all that the text says, in German that a native speaker could have written, but for style (du or Sie, a
  synonym, a comma, the case of letters where the text has none of its own);
usable: the sense is complete and clear, with a slip in grammar, word order or choice of words that nobody
  misunderstands;
wrong: something is missing, added or changed, a name or number is altered, a word is invented or left in English
  that has a German one, or a reader would be misled.

Signs, emoji and paragraphs have to be there as in the text. Where two rules seem to hold, the worse one counts.
"""

TYPED: dict[str, dict[str, str]] = {
    "tidy": {
        "The children are playing in the garden.": "Die Kinder spielen im Garten.",
        "I will never forget this day.": "Ich werde diesen Tag nie vergessen.",
        "She closed the door and went upstairs.": "Sie schloss die Tür und ging nach oben.",
        "We should leave before it gets dark.": "Wir sollten gehen, bevor es dunkel wird.",
        "Do you know where my keys are?": "Weißt du, wo meine Schlüssel sind?",
        "He has lived in this town for ten years.": "Er wohnt seit zehn Jahren in dieser Stadt.",
        "If I had more time, I would learn Italian.": "Wenn ich mehr Zeit hätte, würde ich Italienisch lernen.",
        "The book that you gave me is very interesting.": "Das Buch, das du mir gegeben hast, ist sehr interessant.",
        "Nobody told me that the shop was closed.": "Niemand hat mir gesagt, dass der Laden geschlossen war.",
        "My sister is taller than my mother.": "Meine Schwester ist größer als meine Mutter.",
    },
    "capitals": {
        "I AM AT HOME.": "ICH BIN ZU HAUSE.",
        "WHERE IS MY PHONE?": "WO IST MEIN HANDY?",
        "DO NOT TOUCH THIS BUTTON!": "DRÜCKEN SIE DIESEN KNOPF NICHT!",
        "HAPPY BIRTHDAY!": "ALLES GUTE ZUM GEBURTSTAG!",
        "THE MEETING IS CANCELLED": "DIE BESPRECHUNG FÄLLT AUS",
        "PLEASE CLOSE THE WINDOW.": "BITTE SCHLIESS DAS FENSTER.",
        "THIS IS NOT MY FAULT": "DAS IST NICHT MEINE SCHULD",
        "WE NEED MORE WATER.": "WIR BRAUCHEN MEHR WASSER.",
        "CAN YOU HEAR ME?": "KANNST DU MICH HÖREN?",
        "THE SHOP OPENS ON MONDAY": "DER LADEN ÖFFNET AM MONTAG",
    },
    "lower case": {
        "where do you live": "wo wohnst du",
        "i dont know what to say": "ich weiß nicht, was ich sagen soll",
        "thank you for your help": "danke für deine Hilfe",
        "what time is it": "wie spät ist es",
        "i want to go home": "ich will nach Hause gehen",
        "how much does this cost": "wie viel kostet das",
        "can you help me please": "kannst du mir bitte helfen",
        "my dog is sick": "mein Hund ist krank",
        "are you coming tomorrow": "kommst du morgen",
        "i have been waiting for an hour": "ich warte seit einer Stunde",
    },
    "typing mistakes": {
        "I dont understnad this sentence.": "Ich verstehe diesen Satz nicht.",
        "Where is teh train station?": "Wo ist der Bahnhof?",
        "She is my best freind.": "Sie ist meine beste Freundin.",
        "We are goign to the beach tomorow.": "Wir gehen morgen an den Strand.",
        "Can you recomend a good restaurant?": "Kannst du ein gutes Restaurant empfehlen?",
        "I am realy tired today.": "Ich bin heute wirklich müde.",
        "He forgot his umbrela at home.": "Er hat seinen Regenschirm zu Hause vergessen.",
        "What are you doign tonight?": "Was machst du heute Abend?",
        "It is to late to call her.": "Es ist zu spät, um sie anzurufen.",
        "Thier house is verry big.": "Ihr Haus ist sehr groß.",
    },
    "emoji": {
        "I love you ❤️": "Ich liebe dich ❤️",
        "Good morning! ☀️": "Guten Morgen! ☀️",
        "See you soon 👋": "Bis bald 👋",
        "That was so funny 😂😂": "Das war so lustig 😂😂",
        "🎉 Congratulations! 🎉": "🎉 Herzlichen Glückwunsch! 🎉",
        "I am so tired 😴 but I have to work.": "Ich bin so müde 😴, aber ich muss arbeiten.",
        "Thank you 🙏": "Danke 🙏",
        "My cat 🐱 is sleeping.": "Meine Katze 🐱 schläft.",
        "Are you serious? 😮": "Ist das dein Ernst? 😮",
        "Pizza tonight? 🍕": "Heute Abend Pizza? 🍕",
    },
    "names": {
        "Priya lives next door to us.": "Priya wohnt neben uns.",
        "Have you seen Giovanni today?": "Hast du Giovanni heute gesehen?",
        "Mr. Nakamura is waiting in the lobby.": "Herr Nakamura wartet in der Lobby.",
        "I met Olena and Bogdan at the airport.": "Ich habe Olena und Bogdan am Flughafen getroffen.",
        "Fatima's brother is a doctor.": "Fatimas Bruder ist Arzt.",
        "Chinedu moved from Lagos to Hamburg.": "Chinedu ist von Lagos nach Hamburg gezogen.",
        "We are visiting Aunt Margaret in Edinburgh.": "Wir besuchen Tante Margaret in Edinburgh.",
        "Jürgen speaks four languages.": "Jürgen spricht vier Sprachen.",
        "Did Ahmed call you?": "Hat Ahmed dich angerufen?",
        "Nguyen asked Kowalski for help.": "Nguyen bat Kowalski um Hilfe.",
    },
    "times and dates": {
        "The train leaves at 7:45.": "Der Zug fährt um 7:45 Uhr ab.",
        "Let's meet at half past three.": "Treffen wir uns um halb vier.",
        "I was born on March 14, 1992.": "Ich bin am 14. März 1992 geboren.",
        "The shop is open from 9 a.m. to 6 p.m.": "Der Laden ist von 9 bis 18 Uhr geöffnet.",
        "We will be back on Thursday evening.": "Wir sind am Donnerstagabend zurück.",
        "The exam is on 21 June at 10 o'clock.": "Die Prüfung ist am 21. Juni um 10 Uhr.",
        "It is a quarter to eight.": "Es ist Viertel vor acht.",
        "The course begins next Monday and lasts six weeks.":
            "Der Kurs beginnt nächsten Montag und dauert sechs Wochen.",
        "They got married in the summer of 2015.": "Sie haben im Sommer 2015 geheiratet.",
        "Please call me back before noon.": "Bitte ruf mich vor Mittag zurück.",
    },
    "short imperatives": {
        "Sit down.": "Setz dich.",
        "Wait a moment.": "Warte einen Moment.",
        "Don't move!": "Nicht bewegen!",
        "Call the police!": "Ruf die Polizei!",
        "Turn off the light.": "Mach das Licht aus.",
        "Open the file.": "Öffne die Datei.",
        "Try again later.": "Versuche es später noch einmal.",
        "Follow me.": "Folge mir.",
        "Be careful!": "Sei vorsichtig!",
        "Save your changes.": "Speichere deine Änderungen.",
    },
    "news": {
        "The city council approved the budget on Tuesday.": "Der Stadtrat hat am Dienstag den Haushalt gebilligt.",
        "Heavy rain caused floods in the south of the country.":
            "Starker Regen hat im Süden des Landes Überschwemmungen verursacht.",
        "The company plans to open a new factory in Spain.":
            "Das Unternehmen plant, in Spanien ein neues Werk zu eröffnen.",
        "Unemployment fell for the third month in a row.": "Die Arbeitslosigkeit sank den dritten Monat in Folge.",
        "The team won the final after extra time.": "Die Mannschaft gewann das Finale nach Verlängerung.",
        "Police are looking for witnesses of the robbery.": "Die Polizei sucht Zeugen des Überfalls.",
        "The minister resigned after only six months in office.":
            "Der Minister trat nach nur sechs Monaten im Amt zurück.",
        "Prices for electricity have doubled since last year.":
            "Die Strompreise haben sich seit letztem Jahr verdoppelt.",
        "A fire destroyed an old theatre in the city centre.":
            "Ein Feuer hat ein altes Theater in der Innenstadt zerstört.",
        "Doctors warn of a new wave of the flu.": "Ärzte warnen vor einer neuen Grippewelle.",
    },
    "e-mail": {
        "Dear Ms. Schneider,": "Sehr geehrte Frau Schneider,",
        "Thank you for your e-mail of last week.": "Vielen Dank für Ihre E-Mail von letzter Woche.",
        "Please find the invoice attached.": "Anbei finden Sie die Rechnung.",
        "I am writing to ask whether the flat is still available.":
            "Ich schreibe, um zu fragen, ob die Wohnung noch frei ist.",
        "Could you send me the documents by Friday?": "Könnten Sie mir die Unterlagen bis Freitag schicken?",
        "Unfortunately I cannot come to the meeting tomorrow.":
            "Leider kann ich morgen nicht zur Besprechung kommen.",
        "I look forward to hearing from you.": "Ich freue mich auf Ihre Antwort.",
        "Please let me know if you have any questions.": "Bitte lassen Sie mich wissen, wenn Sie Fragen haben.",
        "Sorry for the late reply.": "Entschuldigen Sie die späte Antwort.",
        "Kind regards, Anna": "Mit freundlichen Grüßen, Anna",
    },
    "idioms": {
        "It's raining cats and dogs.": "Es regnet in Strömen.",
        "Break a leg!": "Hals- und Beinbruch!",
        "That's a piece of cake.": "Das ist ein Kinderspiel.",
        "I'm fed up with it.": "Ich habe es satt.",
        "Better late than never.": "Besser spät als nie.",
        "You're pulling my leg.": "Du nimmst mich auf den Arm.",
        "Keep your fingers crossed!": "Drück die Daumen!",
        "It's all Greek to me.": "Das kommt mir spanisch vor.",
        "He kicked the bucket.": "Er hat den Löffel abgegeben.",
        "Let's call it a day.": "Machen wir Feierabend.",
    },
    "paragraphs": {
        "I woke up late this morning. The bus had already left. So I had to walk to work.":
            "Ich bin heute Morgen spät aufgewacht. Der Bus war schon weg. Also musste ich zu Fuß zur Arbeit gehen.",
        "My name is Laura. I am 28 years old. I work as a nurse in a hospital.":
            "Ich heiße Laura. Ich bin 28 Jahre alt. Ich arbeite als Krankenschwester in einem Krankenhaus.",
        "Yesterday we went to the zoo. The children liked the monkeys. In the evening we ate pizza.":
            "Gestern waren wir im Zoo. Den Kindern gefielen die Affen. Am Abend haben wir Pizza gegessen.",
        "Do you like cooking? I do. My favourite dish is vegetable soup.":
            "Kochst du gern? Ich schon. Mein Lieblingsgericht ist Gemüsesuppe.",
        "The old man sat on a bench. He was reading a newspaper. Nobody talked to him.":
            "Der alte Mann saß auf einer Bank. Er las eine Zeitung. Niemand sprach mit ihm.",
        "Our hotel is near the beach. The rooms are small but clean. Breakfast is included.":
            "Unser Hotel liegt am Strand. Die Zimmer sind klein, aber sauber. Das Frühstück ist inbegriffen.",
        "I lost my wallet on the train. Someone found it and called me. I was very happy.":
            "Ich habe im Zug meine Brieftasche verloren. Jemand fand sie und rief mich an. Ich war sehr froh.",
        "It was dark. We could not see anything. Suddenly we heard a noise.":
            "Es war dunkel. Wir konnten nichts sehen. Plötzlich hörten wir ein Geräusch.",
        "She studies law in Munich. Her parents live in Turkey. She visits them every summer.":
            "Sie studiert Jura in München. Ihre Eltern leben in der Türkei. Sie besucht sie jeden Sommer.",
        "Please read the instructions carefully. Then press the green button. Wait until the light turns on.":
            "Bitte lesen Sie die Anleitung sorgfältig. Drücken Sie dann den grünen Knopf. Warten Sie auf das Licht.",
    },
}  # fmt: skip
