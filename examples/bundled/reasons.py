"""Twenty texts for each reason of a warning, and twenty that should have none, to see whether the reasons are right.

They were written by what the texts are, not by what the model says of them, and none was changed or left out
afterwards. ``measure.py`` counts how many are warned of, and how many for their reason.
"""

TEXTS: dict[str, list[str]] = {
    "language": [
        "Der alte Mann liest jeden Abend die Zeitung.", "Wo finde ich bitte den nächsten Bahnhof?",
        "Mañana vamos a la playa con los niños.", "¿Cuánto cuesta una habitación para dos personas?",
        "Je ne comprends pas ce que vous voulez dire.", "La boulangerie est fermée le dimanche.",
        "Vorrei un caffè e un bicchiere d'acqua.", "Il treno per Milano parte alle nove.",
        "Ik heb gisteren een nieuwe fiets gekocht.", "Onde fica a farmácia mais próxima?",
        "Jag tycker om att läsa böcker på kvällen.", "Dziękuję bardzo za pomoc.",
        "Kde je nejbližší zastávka autobusu?", "Yarın hava çok güzel olacak.", "Я живу в маленьком городе на севере.",
        "Πού είναι το ξενοδοχείο;", "今天天气很好。", "駅はどこですか。", "أين تقع المكتبة؟",
        "Nerede yaşıyorsunuz ve ne iş yapıyorsunuz?",
    ],
    "characters": [
        "The sign on the door says 出口.", "He wrote привет on the wall.", "My Japanese friend calls me さくら.",
        "The Greek word λόγος has many meanings.", "She answered with شكرا and left.", "What does שלום mean?",
        "The word नमस्ते is a greeting.", "The symbol ∑ means a sum.", "Is 7 ∈ A true?", "The file is called ﷽.txt.",
        "I read the letter Ж for the first time.", "The answer is √2.", "He lives in Łódź.", "My name is Ngọc.",
        "The set is empty: ∅.", "She drew the rune ᚠ on a stone.", "The note ♩ is missing here ♬ and ♭ there.",
        "The menu had only 한국어 on it.", "The price is 500 ₽.", "The temperature rose by ∆T.",
    ],
    "words": [
        "The anaesthetist recommended a laparoscopic procedure.", "The plumber replaced the corroded flange.",
        "Our quarterly amortization exceeded the forecast.", "The zoologist photographed a pangolin.",
        "She crocheted a lavender doily.", "The sommelier decanted the claret.", "He whittled a bassoon reed.",
        "The arborist pruned the hornbeam.", "The defendant filed an affidavit.", "We sauteed the shallots in ghee.",
        "The compiler inlines the callback.", "The chiropractor realigned my vertebrae.",
        "The choreographer rehearsed a gavotte.", "The barista frothed oat milk.", "Bees pollinate the rapeseed.",
        "The seamstress hemmed the tulle.", "The geologist sampled feldspar and gneiss.",
        "The router throttles the bandwidth.", "The jockey saddled the gelding.",
        "The bailiff repossessed the caravan.",
    ],
    "length": [
        "When I was a child my parents often took me to the house of my grandmother, who lived alone in a small "
        "village near the sea, and every time we came she gave us something to eat and told us stories about the "
        "old days.",
        "If you go down this street and turn left at the second corner, you will see a big white house with a red"
        " door, and behind that house there is a little garden in which an old man sits and reads his book every "
        "day.",
        "I do not know why he did not tell me that he wanted to leave, because if he had said something about it "
        "to me or to my brother, we could have helped him to find a new place to live before the winter came.",
        "My friend and I went to the city last week to buy a present for her mother, but since all the shops that"
        " we wanted to go to were closed on that day, we only had a cup of coffee and then took the next bus "
        "home.",
        "The teacher asked the boy who was sitting near the window to read the first page of the book, but he had"
        " left it at home, so a girl from the first row gave him hers and he began to read very slowly.",
        "After the doctor had looked at my leg and asked me many questions about what had happened, he told me "
        "that I should stay in bed for a week and not go to work, although I said that I did not feel any pain at"
        " all.",
        "She said that she would come to the party if she had time, but that she had so much work to do at the "
        "moment that she did not even know when she would be able to see her own children in the evening.",
        "We have lived in this town for more than ten years now and we know almost all the people here, but we "
        "are thinking about moving to another country, because my husband has found a new job that he likes very "
        "much.",
        "The man who sold me the car told me that it was almost new and that nobody had ever had an accident with"
        " it, but when I drove home in the evening the lights did not work and the door could not be closed any "
        "more.",
        "I wanted to ask you whether you could help me with my homework tomorrow after school, because I have not"
        " understood what the teacher said about the war, and my father, who usually helps me, is not at home "
        "this week.",
        "Although it was raining and very cold we walked along the river for three hours, talked about everything"
        " that had happened since we last saw each other, and were so happy that we forgot to eat and to drink "
        "anything.",
        "There are many people in the world who have to work every day from early in the morning until late in "
        "the evening and who nevertheless do not have enough money to buy food and good clothes for their "
        "children.",
        "Yesterday I met a woman on the train who told me that she had been to almost every country in the world,"
        " that she could speak six languages, and that she still did not know in which place she would like to "
        "grow old.",
        "He opened the door, took off his shoes and his coat, went into the kitchen, made himself a cup of tea, "
        "sat down at the table and began to read the letter that his wife had written to him before she went "
        "away.",
        "It is very important that all of you listen to what I am going to say now, because I will only say it "
        "once and then I will leave, and you will have to do everything alone until I come back in the evening.",
        "The old dog that belongs to our neighbours comes into our garden every morning, lies down under the big "
        "tree, sleeps there until my little sister comes home from school, and then plays with her until it gets "
        "dark.",
        "If I had known that you were going to be in the same city on the same day, I would have called you and "
        "we could have had dinner together in the little restaurant near the station where we used to go as "
        "students.",
        "My brother thinks that he is much better at playing the piano than I am, but everyone who has heard both"
        " of us says that I play better, and so he has decided that from now on he will practice two hours every "
        "day.",
        "The boy looked at the sky for a long time and asked his mother why the stars can only be seen at night, "
        "where the sun goes in the evening and who has made all of this, and she did not know what to say.",
        "Please tell your sister that I have found the book that she was looking for and that she can come to my "
        "house and get it whenever she wants, but not on Monday, because on that day I will be at work until the "
        "evening.",
    ],
    "unsure": [
        "To be or not to be, that is the question.", "Let sleeping dogs lie.", "He has a chip on his shoulder.",
        "Cut me some slack, will you?", "That ship has sailed.", "Six of one, half a dozen of the other.",
        "Out of sight, out of mind, out of luck.", "No pain, no gain.", "Hit me up when you are back.",
        "She took it with a grain of salt.", "What goes around comes around.", "The early bird gets the worm.",
        "Run that by me again.", "It is six and two threes.", "Do as you would be done by.",
        "He who laughs last laughs best.", "Time will tell, will it not?", "You had better had.",
        "Her bark is worse than her bite.", "All that that is is.",
    ],
    "none": [
        "I am hungry.", "Where is the station?", "She is my sister.", "I live in Germany.", "He is reading a book.",
        "Thank you very much.", "I don't understand.", "What is your name?", "The dog is sleeping.",
        "We are going home now.", "I love you.", "It is raining today.", "Can you help me?", "My father is a doctor.",
        "I would like a cup of coffee.", "The window is open.", "How old are you?", "They have two children.",
        "I have to go to work.", "Close the door, please.",
    ],
}  # fmt: skip
