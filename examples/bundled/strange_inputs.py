"""Inputs that the bundled model cannot translate and should say so: Spanish sentences, and lines that mean nothing.

The third kind, German sentences, are the references of the test pairs.
"""

SPANISH = (
    "¿Dónde está la estación de tren?", "Buenos días, ¿cómo estás?", "Me gustaría reservar una habitación.",
    "El perro duerme debajo de la mesa.", "Mañana va a llover todo el día.", "No tengo hambre, gracias.",
    "Mi hermana vive en una casa pequeña.", "¿Cuánto cuesta este libro?", "Tenemos que salir antes de las ocho.",
    "Hace mucho frío esta noche.", "Los niños juegan en el parque.", "Quiero aprender a tocar la guitarra.",
    "Ayer compré un par de zapatos nuevos.", "La sopa está demasiado caliente.", "¿Puedes ayudarme con la maleta?",
    "Nunca he estado en Japón.", "El médico me dijo que descansara.", "Hay una farmacia cerca de la plaza.",
    "Te llamaré cuando llegue a casa.", "Ella trabaja en un hospital muy grande.", "No entiendo lo que dices.",
    "El tren llegó con tres horas de retraso.", "¿Quieres tomar un café conmigo?", "Mi abuelo tiene noventa años.",
    "Se me olvidaron las llaves en la oficina.", "El cielo está lleno de estrellas.", "Vamos a comer pescado hoy.",
    "Tu idea me parece muy interesante.", "La ventana de la cocina está abierta.", "Nos vemos el próximo viernes.",
    "Estoy buscando mis gafas.", "El gobierno quiere bajar los impuestos.", "Cierra la puerta, por favor.",
    "Perdí mi pasaporte en el aeropuerto.", "Este vino es de Chile.", "Los pájaros cantan por la mañana.",
    "Siempre llegas tarde a clase.", "¿Qué hiciste el fin de semana?", "Prefiero viajar en avión.",
    "El gato negro saltó la valla.", "Mi padre lee el periódico cada mañana.", "No creo que sea verdad.",
    "Había mucha gente en la calle.", "¿A qué hora abre el museo?", "Necesito un vaso de agua.",
    "Ella sabe hablar cuatro idiomas.", "Las flores del jardín son rojas.", "El examen fue muy fácil.",
    "Me duele la cabeza desde ayer.", "Vivimos en el tercer piso.", "¿Has visto a mi hermano?",
    "El niño rompió el vaso sin querer.", "La vida es bella.", "Estoy muy contento de verte.",
    "No hay nada que hacer.", "Feliz cumpleaños.", "Hasta mañana.", "Muchas gracias por todo.",
    "¿Por qué lloras?", "Todos los caminos llevan a Roma.",
)  # fmt: skip

NONSENSE = (
    "asdf", "asdf jkl", "qwertz uiop", "hjkl hjkl hjkl", "xxxxxxxxxx", "aaaaaaaaaaaaaaaaaaaa", "lkjsdf oiwer xcvm",
    "zxcv bnm", "blorf snaggle wump", "fnord grzk plmph", "1234 qwer 5678 asdf", "!!!???!!!", "%%% ### @@@", "----",
    "d41d8cd98f00b204e9800998ecf8427e", "0x7fff5fbff8a0", "SELECT * FROM users;", "</div></body></html>",
    "for (i = 0; i < n; i++) {", "ghghghgh tktktktk", "brrrt pfft zzzt", "vzmx kqjw phhr tlcd", "ijij ojoj ujuj",
    "wq wq wq wq wq", "tset siht si ecnetnes a", "eht god speels ni ym deb", "uoy era woh", "kcab ot tnorf",
    "Xyzzy plugh frotz!", "mnbvcxy lkjhgfdsa", "q w e r t y u i o p", "a b c d e f g h i j k l m n o p",
    "öäü öäü öäü", "ßßß ñññ ççç", "ффф ыыы ввв", "αβγ δεζ ηθι", "你好世界", "こんにちは", "مرحبا", "שלום",
    "🙂🙂🙂", "lorem ipsum dolor sit amet", "foobarbazqux", "hnnng mrrrp", "kdsjfh ksdjfh skdjfh skjdfh",
    "Ph'nglui mglw'nafh", "tlhIngan maH", "eeny meeny miny moe zzz", "gargle blurp snork fizzle", "0000000000000000",
    "ABCDEFGH IJKLMNOP", "xkcd wxyz rgbk", "dfgdfg hfghfg jghjgh", "yyyy-mm-dd hh:mm:ss", "npm ERR! code E404",
    "/usr/lib/x86_64-linux-gnu", "a1b2c3d4e5", "lololololol", "vvvvv wwwww vvvvv", "pqpqpq dbdbdb",
)  # fmt: skip
