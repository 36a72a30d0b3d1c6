"""What is spoken in ``bench turns``: stories of about a minute and a quarter.

The reference figures are of a story question, answered in 65 to 84 s. These stories are that
long at 60 ms a character; they begin with a short sentence, as such answers do.
"""

from __future__ import annotations

QUESTIONS = (
    "Please tell me a long story about a lighthouse keeper and the sea.",
    "Tell me a story about a girl who repairs clocks.",
    "Can you tell me a story about two brothers and a river?",
    "Tell me a long story about a baker in a small town.",
    "Please tell me a story about an old dog and a new house.",
    "Tell me a story about a gardener who grows a strange tree.",
)

STORIES = (
    "Of course, here is a story about a lighthouse. Once upon a time a keeper lived in a"
    " lighthouse at the edge of the sea. Every evening he climbed the two hundred steps to the"
    " lamp, lit it with a long match, and looked out over the dark water until the first ships"
    " had passed. He knew each of them by the sound of its engine, and he had given them names"
    " that their captains never heard. One night in November the fog was so thick that he could"
    " not see his own hand on the rail. The lamp burned as brightly as ever, but the light went"
    " no further than the rocks, and somewhere out there a small boat was calling with its horn."
    " The keeper did not think about it for long. He took the old bell from the cellar, carried"
    " it up all the steps on his back, and began to ring it once for every breath that he took."
    " He rang it the whole night, although his arms were tired and his hands were cold. When the"
    " morning came the fog lifted like a curtain, and there lay the boat in the harbour, safe"
    " and dry, with three fishermen asleep on its deck. They never learned who had brought them"
    " home. But since that night every boat that passes the lighthouse rings its bell one time,"
    " and the keeper always answers.",
    "Here is a story about a girl and her clocks. In a narrow street behind the market there"
    " lived a girl who repaired clocks. Her name was Clara, and she had learned the craft from"
    " her grandmother, who used to say that a clock is only a patient machine for listening."
    " People brought her watches that had fallen into soup, church clocks with bent hands, and"
    " once a cuckoo that refused to come out of its house. Clara found out what was wrong with"
    " each of them, because she never hurried. One day a man in a grey coat put a small silver"
    " watch on her table. It runs well, he said, but it always shows the time of yesterday."
    " Clara opened it and saw nothing that was broken. She listened to it for a whole evening,"
    " and then she understood that the watch was homesick. It had been made in a town far to the"
    " east, where the sun comes up earlier, and it had never stopped counting the hours of that"
    " place. So she wrote the name of the town on a thin piece of paper and laid it under the"
    " wheels. The next morning the watch was right to the second. The man came back, read the"
    " paper, and was quiet for a long time. Then he bought a ticket for a train that goes east.",
    "Sure, let me tell you about two brothers. They lived on the two banks of a wide river."
    " They had quarrelled about a fence when they were young, and since then neither of them had"
    " crossed the water, although each could see the smoke from the chimney of the other. In the"
    " summer of the great drought the river became so shallow that one could walk through it."
    " The elder brother stood at the edge every evening and told himself that he was only"
    " looking for his goat. The younger one did the same, and he did not even own a goat. One"
    " night a storm broke in the mountains, and nobody in the valley knew of it until the water"
    " came. It came as a brown wall with trees in it. The elder brother heard a shout, and"
    " without thinking he ran down and threw a rope towards the voice. Somebody caught it and"
    " held on. For an hour they pulled, each on his own side of the flood, until the bridge of"
    " the rope held between two oaks and the younger one could climb across. They sat by the"
    " fire, wet and out of breath. You have grown old, said the elder. So has the fence, said"
    " the younger, and then both of them began to laugh. In the spring they built a real bridge"
    " there.",
    "I would love to tell you a story. There was a baker in our town whose bread was famous for"
    " its silence. Other loaves crackle when they come out of the oven, but his lay still on the"
    " boards, as if they were thinking about something. The people bought them because they"
    " tasted of honey and smoke, and they did not ask any questions. Only the little daughter of"
    " the postman wanted to know why. She came every morning before school and pressed her ear"
    " against the warm crust. At last the baker smiled and let her into the back room, where the"
    " flour was kept in big wooden chests. I will tell you the secret, he said, if you can keep"
    " it until you are as old as I am. When I knead the dough I tell it a story, and I stop just"
    " before the end. So the bread lies there the whole day and waits for how it goes on, and"
    " that is why it is so quiet. The girl thought about this for a while. And what happens when"
    " somebody eats it? Then he will dream the end of the story in the same night, the baker"
    " said. From that day on she ate her bread very slowly, and she began to write down her"
    " dreams. She became a famous writer, of course.",
    "Here is a story about an old dog. When the family moved into the new house, the old dog"
    " stayed in the car. His name was Bruno, he was thirteen years old, and he did not believe"
    " in new houses. They called him, they showed him his basket and his bowl, and finally they"
    " carried him inside, where he lay down in front of the door with his nose against the gap."
    " In the first night he did not sleep. He heard a tap that dripped in the kitchen, a branch"
    " that scratched on the roof, and the wind, which spoke another language here than at home."
    " In the second night he got up and walked through all the rooms, one after the other, and"
    " smelled every corner. In the third night he found the youngest child sitting on the"
    " stairs. She could not sleep either, and she was crying so softly that nobody but a dog"
    " could have heard it. Bruno sat down beside her and leaned against her shoulder with his"
    " whole weight. After a while her breathing became slow and even. In the morning the parents"
    " found both of them asleep on the stairs, wrapped in one blanket. From then on the old dog"
    " lay in front of the child's room, and the house was finally a house that somebody guarded.",
    "Gladly, this is the story of the strange tree. A gardener once planted a seed that nobody"
    " could name. He had found it in the pocket of a coat which he had bought at the market,"
    " together with a button and a ticket for the tram. The tree that grew from it was the"
    " strangest one in the whole garden. In spring it had no blossoms, in summer it had no"
    " shade, and in autumn its leaves turned blue and stayed where they were. The neighbours"
    " laughed at it and advised him to cut it down. Wait a little, said the gardener, because"
    " that was what he always said. He watered it in the dry months and wrapped its trunk in"
    " straw when the frost came. Seven years went by in this way. Then came a winter so long"
    " that the birds began to starve, and all the other trees stood bare and black in the snow."
    " One morning the strange tree was full of fruit, small and red and warm like bread from the"
    " oven. The birds came from all over the country and ate until they could hardly fly. When"
    " they had gone there was not a single fruit left, but under the tree lay thousands of"
    " seeds. The gardener put them into the pockets of old coats and took them to the market.",
)
